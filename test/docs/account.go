package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Runner is who runs a command of the documents.
type Runner struct {
	// By is `RUN=NAME` of an end-to-end test, `TestNAME` of another, CI, or empty: nothing does.
	By string
	// Why says why nothing does, or how what is run differs from what is written; empty: it is run as it is written, with names put in for
	// words in capitals.
	Why string
}

// CI is what CI consists of.
const CI = "make test"

// The end-to-end tests that read the commands which they run from the documents.
const (
	// Shows runs what only shows something, in an environment of `quorate up` with the cluster demo.
	Shows = "RUN=docs"
	// Changes runs what changes something in such an environment, document after document.
	Changes = "RUN=docs-change"
	// InPods runs what is for a management cluster in which the manager is a pod.
	InPods = "RUN=helm"
	// Makes runs what is for somebody who has the sources, in a clone of them: machines, recordings, releases.
	Makes = "RUN=docs-make"
	// Measures runs what compares Quorate with upstream.
	Measures = "RUN=docs-bench"
)

type accountRow struct {
	pattern *regexp.Regexp
	Runner
}

// account has a row for each command in a block of a document: a pattern of the document and the command, and who runs it. The first row
// that matches counts.
var account = []accountRow{
	{row(`README.md: kubectl apply -k config/default`), Runner{"TestDefault", "against an API server of the test's own"}},
	{row(`README.md: kubectl apply -f cluster\.yaml`), Runner{"RUN=self-managed", "by quorate up, which applies the same manifests"}},
	{row(`README.md: make image .*`), Runner{Makes, ""}},
	{row(`README.md: make test|docs/self-managed.md: make build`), Runner{CI, ""}},
	{row(`README.md: git clone .*`), Runner{Makes, "from a folder of this host"}},
	{row(`README.md: make demo`), Runner{Makes, ""}},
	{row(`docs/plan.md: (make|go) .*`), Runner{Makes, ""}},
	{row(`docs/release.md: (openssl|sha256sum) .*`), Runner{"TestOpenSSL", "with a release of the test's own"}},
	{row(`docs/release.md: QUORATE_RELEASE_PUBLIC_KEY=.*`), Runner{"TestVerifyRelease", "by its function, with a release of the test's own"}},
	{row(`docs/release.md: .*`), Runner{Makes, ""}},
	{row(`docs/scale.md: make bench-upstream.*`), Runner{Measures, ""}},

	{row(`docs/recover.md: quorate restore .*`), Runner{"RUN=restore-elsewhere", "with the store of quorate up, and without being asked"}},
	{row(`docs/recover.md: quorate recover .*`), Runner{"RUN=recover-survivor", "with another cluster's name, and without being asked"}},
	{row(`docs/hibernate.md: quorate (hibernate|wake) demo`), Runner{"RUN=hibernate", "with another cluster's name, and without being asked"}},
	{row(`docs/hibernate.md: kubectl patch .*`), Runner{"RUN=hibernate", "by quorate hibernate, which sends this patch"}},
	{row(`docs/dashboard.md: quorate dashboard.*`), Runner{"RUN=dashboard", "without opening a browser, whose address a test opens"}},
	{row(`docs/operating.md: quorate report demo`), Runner{"RUN=dashboard", "with another cluster's name, and --to"}},
	{row(`docs/backup.md: quorate backup .*`), Runner{"RUN=backup", "with another cluster's name"}},
	{row(`docs/certificates.md: quorate certificates list.*`), Runner{"RUN=certificates", "with another cluster's name"}},
	{row(`docs/etcd-maintenance.md: quorate etcd .*`), Runner{"RUN=etcd-full", "with another cluster's name, and without being asked"}},
	{row(`docs/bundles.md: QUORATE_BUNDLE=.* make demo`), Runner{Makes, ""}},
	{row(`docs/bundles.md: make bundle`), Runner{"RUN=bundle", "into a folder of the test's own, signed by its key"}},
	{row(`docs/bundles.md: QUORATE_BUNDLE=https.* quorate up`), Runner{"RUN=bundle", "from a server of the test's own"}},
	{row(`docs/bundles.md: openssl .*`), Runner{Changes, ""}},
	{row(`docs/bundles.md: .*registry\.example\.org.*`), Runner{"TestBundleSources", "with a registry of the test's own"}},
	{row(`docs/bundles.md: .*https://example\.org.*`), Runner{"TestBundleSources", "from a server of the test's own"}},
	{row(`docs/bundles.md: quorate artifacts .*`), Runner{Changes, ""}},
	{row(`docs/(classes|control-plane-of-machines|etcd).md: .*`), Runner{Changes, ""}},
	{row(`docs/in-place.md: quorate upgrade (retry|rollback) demo`), Runner{"RUN=inplace-undo", "with another cluster's name"}},
	{row(`docs/in-place.md: .*`), Runner{Changes, ""}},
	{row(`docs/plan.md: quorate plan demo -f changed\.yaml .*`), Runner{"RUN=plan", "with a file of the test's own"}},
	{row(`docs/plan.md: quorate plan -f cluster\.yaml`), Runner{"TestPlanOfBirth", "with a file and an API server of the test's own"}},
	{row(`docs/operating.md: kubectl get configmap demo-cp-kcp-quorate-history .*`), Runner{Changes, ""}},
	{row(`docs/operating.md: (quorate export|quorate plan -f control-plane\.yaml|kubectl apply -f control-plane\.yaml).*`),
		Runner{"TestExport", "with an API server of the test's own, and without kubectl"}},
	{row(`(docs/operating.md: quorate replace demo-cp-2|docs/runbooks/.*: quorate replace MACHINE)`),
		Runner{"RUN=replace", "with another cluster's name, and without being asked"}},
	{row(`docs/operating.md: kubectl get machines .*`), Runner{Shows, ""}},
	{row(`docs/operating.md: kubectl (patch cluster|patch kubeadmcontrolplane|annotate kubeadmcontrolplane) .*`),
		Runner{"TestFirstMachineAgain", "in memory, and without kubectl"}},
	{row(`docs/operating.md: clusterctl init --kubeconfig=NEW .*`),
		Runner{"RUN=self-managed", "by quorate up --self-managed, which runs clusterctl"}},
	{row(`docs/operating.md: (kubectl (--kubeconfig=NEW )?annotate etcdclusters,machines|kubectl patch \$m) .*`), Runner{"TestMove", ""}},
	{row(`docs/operating.md: clusterctl move \.\.\.`), Runner{"TestMove", "by clusterctl's library"}},
	{row(`docs/operating.md: kubectl delete clusterrolebinding quorate-manager`), Runner{"TestDefault", ""}},
	{row(`docs/operating.md: clusterctl move .*`), Runner{"RUN=move", "by quorate up --self-managed, which runs clusterctl"}},
	{
		row(`docs/operating.md: (quorate decide CLUSTER.*|kubectl delete node NAME)`),
		Runner{"RUN=restored-management", "with the names of the test"},
	},
	{row(`docs/decide.md: quorate decide .*`), Runner{"RUN=decide", "with another cluster's name, and without being asked"}},

	{row(`docs/self-managed.md: quorate up.*`), Runner{"RUN=self-managed", "with another cluster's name"}},
	{row(`docs/install.md: clusterctl init .*`), Runner{"RUN=self-managed", "by quorate up --self-managed, which runs clusterctl"}},
	{row(`docs/install.md: kubectl apply -k config/default`), Runner{"TestDefault", "against an API server of the test's own"}},
	{row(`docs/install.md: kubectl apply --server-side -k config/restricted-egress`),
		Runner{"TestRestrictedEgress", "against an API server of the test's own"}},
	{row(`docs/install.md: helm upgrade --install .*`), Runner{"TestRestrictedEgress", "by Helm's library"}},
	{row(`docs/install.md: kubectl (apply -k config/tenant|create (role|rolebinding) .*)`),
		Runner{"TestTenant", "against an API server of the test's own, without kubectl"}},
	{row(`docs/install.md: helm install .*`), Runner{"RUN=helm", "with the chart's path"}},
	{row(`docs/migrate.md: kubectl .*(\$N|--server-side|get crd ).*`),
		Runner{"TestMigrate", "against an API server of the test's own, without pods"}},
	{row(`docs/migrate.md: .*`), Runner{"RUN=upgrade-provider", ""}},
	{row(`docs/install.md: kubectl --namespace quorate-system .*|docs/install.md: kubectl (auth|create|get) .*`), Runner{InPods, ""}},
	{row(`docs/metrics.md: (kubectl|curl|go) .*`), Runner{InPods, ""}},
	{row(`docs/runbooks/.*: kubectl -n quorate-system .*`), Runner{InPods, ""}},
	{row(`docs/runbooks/.*: quorate backup list .*`), Runner{"RUN=backup", "with another cluster's name"}},
	{row(`docs/runbooks/.*: quorate etcd .*`), Runner{"RUN=etcd-full", "with another cluster's name, and without being asked"}},
	{row(`docs/runbooks/.*: (etcdctl .*|kubectl .*(cluster\.kubeconfig).*|kubectl .* (annotate machine|patch) .*)`), Runner{Changes, ""}},
	{row(`(README|docs/plan|docs/troubleshooting|docs/runbooks/\w+).md: (quorate (status|explain|plan|logs)|kubectl).*`), Runner{Shows, ""}},
}

func row(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)$`) }

// rowOf is the row of the account for a command; -1: there is none.
func rowOf(c Command) int {
	return slices.IndexFunc(account, func(r accountRow) bool { return r.pattern.MatchString(c.File + ": " + c.Text) })
}

// RunBy is who runs a command in a block of a document.
func RunBy(c Command) (Runner, error) {
	i := rowOf(c)
	if i < 0 {
		return Runner{}, fmt.Errorf("%s: no test runs it: add a row to the account of test/docs, or have one of the patterns there match", c)
	}
	return account[i].Runner, nil
}

// Named puts in what a reader puts in for the words in capitals, in an environment with the cluster demo that has a machine of that name.
func Named(line, machine string) string {
	return strings.NewReplacer("KIND NAME", "kubeadmcontrolplane demo-cp", "lease NAME", "lease quorate-manager", "NAMESPACE", "default",
		"MACHINE", machine,
		"CLUSTER", "demo", "CONTROL-PLANE", "demo-cp", "name=NAME", "name=demo", "user=ME", "user=system:serviceaccount:default:me").Replace(line)
}
