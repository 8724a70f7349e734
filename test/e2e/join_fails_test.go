//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
)

const (
	// clusterVersion is that of the cluster; recordedVersion what its own record is made to say, since machines of a version so old cannot be
	// had here; newerVersion that of a machine whose kubeadm takes no cluster so old. That of the others does.
	clusterVersion, recordedVersion, newerVersion = "v1.35.4", "v1.34.0", "v1.36.3"
	// foundWithin is the longest from the end of kubeadm until the condition says why.
	foundWithin = time.Minute
	// fromNow is how far from now another clock is.
	fromNow = 48 * time.Hour
	// begins is the file in a machine whose appearance lets kubeadm begin, where a cause needs time to come about.
	begins = "/root/begins"
)

// joins are machines of one cluster, of which none can join.
type joins struct {
	*environment
	name     string
	endpoint string
	token    string
	// expiring is a token that does not outlast the life.
	expiring string
	// future is an endpoint whose certificate is not valid yet.
	future string
	// found is what conditions said, by the machine's name.
	found map[string]finding
}

// cause is one for which a machine cannot join.
type cause struct {
	name, reason string
	// line is part of the line of a log that the condition must have.
	line string
	// spoil makes the data such that the machine cannot join.
	spoil func(*testing.T, *joins, *joinData)
}

var causes = []cause{
	{"token-unknown", "TokenUnknown", `could not find a JWS signature in the cluster-info ConfigMap for token ID "abcdef"`,
		func(_ *testing.T, _ *joins, d *joinData) {
			d.token = "abcdef.0123456789abcdef"
		}},
	{"token-expired", "TokenExpired", "could not find a JWS signature in the cluster-info ConfigMap for token ID",
		func(_ *testing.T, j *joins, d *joinData) {
			d.token = j.expiring
			d.before = []string{"until [ -e " + begins + " ]; do sleep 1; done"}
		}},
	{"ca-hash", "CAHashMismatch", "are pinned", func(_ *testing.T, _ *joins, d *joinData) {
		d.caHash = "sha256:" + strings.Repeat("0", 64)
	}},
	{"version", "VersionSkew", "this version of kubeadm only supports deploying clusters with the control plane version >=",
		func(_ *testing.T, _ *joins, d *joinData) {
			d.version = newerVersion
		}},
	{"endpoint", "EndpointUnreachable", "dial tcp", func(t *testing.T, j *joins, d *joinData) {
		d.endpoint = j.nobody(t)
	}},
	{"disk-full", "DiskFull", "no space left on device", func(_ *testing.T, _ *joins, d *joinData) {
		d.before = []string{
			"mkdir -p /etc/kubernetes && mount -t tmpfs -o size=64k tmpfs /etc/kubernetes",
			"cat /dev/zero > /etc/kubernetes/filled || true",
		}
	}},
	{"clock", "ClockSkew", "x509: certificate has expired or is not yet valid", func(_ *testing.T, j *joins, d *joinData) {
		d.endpoint = j.future
	}},
	{"cgroup-driver", "CgroupDriverMismatch", "systemd", func(_ *testing.T, _ *joins, d *joinData) {
		d.before = []string{
			"sed -i 's/SystemdCgroup = false/SystemdCgroup = true/' /etc/containerd/config.toml",
			"systemctl restart containerd",
			"until ctr version > /dev/null 2>&1; do sleep 1; done",
		}
	}},
}

// joinFails: machines that cannot join are found out, each for another of eight causes, all at the same time.
func joinFails(t *testing.T, e *environment) {
	j := &joins{environment: e, name: "romeo", found: map[string]finding{}}
	e.up(t, j.name, "--replicas", "1", "--kubernetes-version", clusterVersion)
	j.endpoint = j.clusterEndpoint(t)
	j.token, j.expiring = j.bootstrapToken(t, time.Hour), j.bootstrapToken(t, time.Minute)
	j.future = j.serveFromTheFuture(t)
	j.recordVersion(t, recordedVersion)
	for _, c := range causes {
		j.begin(t, c)
	}
	j.letExpire(t, "token-expired")
	eventually(t, "all are found out", patience, func() string { return j.look(t) })
	right, longest := 0, time.Duration(0)
	for _, c := range causes {
		took, ok := j.judge(t, c)
		if ok {
			right++
		}
		longest = max(longest, took)
	}
	t.Logf("FIGURE causes for which a machine cannot join: %d tried, %d told apart; from the end of kubeadm until the condition says so at "+
		"most %.1f s", len(causes), right, longest.Seconds())
	if longest > foundWithin {
		t.Errorf("it took %s until the last was found out, want at most %s", longest, foundWithin)
	}
	j.repairEnds(t)
	e.takeDown(t, j.name)
}

// repairEnds: a rollout makes a machine that cannot join, and neither can the one that replaces it. The control plane says why, and as
// spec.remediation.maxRetry is 0 there is no third.
func (j *joins) repairEnds(t *testing.T) {
	t.Helper()
	before := j.machines(t, j.name)
	j.change(t, j.name, func(kcp *controlplanev1.KubeadmControlPlane) {
		spec := &kcp.Spec.KubeadmConfigSpec
		spec.PreKubeadmCommands = append(spec.PreKubeadmCommands, "sed -i 's/apiServerEndpoint: .*/apiServerEndpoint: "+j.nobody(t)+
			"/' /run/kubeadm/kubeadm-join-config.yaml || true")
		spec.JoinConfiguration.Timeouts.DiscoverySeconds = ptr.To[int32](30)
		kcp.Spec.Remediation.MaxRetry = ptr.To[int32](0)
	})
	first := j.cannotJoin(t, before...)
	j.mark(t, first)
	second := j.cannotJoin(t, append(before, first)...)
	j.mark(t, second)
	eventually(t, "the repair ends, and explain says why", patience, func() string {
		out := j.quorate(t, "explain", j.name)
		if !strings.Contains(out, "maxRetry is 0") || !strings.Contains(out, "endpoint does not answer the machine") {
			return out
		}
		return ""
	})
	if p := j.controlPlane(t, j.name).Status.Plan; p.Step != "Wait" {
		t.Errorf("the next step is %s: %s", p.Step, p.Message)
	}
	if now := j.machines(t, j.name); !slices.Equal(now, append(before, second)) {
		t.Errorf("the machines are %v, want %v and %s", now, before, second)
	}
}

// cannotJoin waits until the control plane has another machine than these, and says why that cannot join. It returns its name.
func (j *joins) cannotJoin(t *testing.T, but ...string) string {
	t.Helper()
	name := ""
	eventually(t, "the control plane says why its new machine cannot join", patience, func() string {
		c := conditions.Get(j.controlPlane(t, j.name), kubeadmv1.KubeadmControlPlaneMachinesReadyCondition)
		for _, m := range j.machines(t, j.name) {
			if !slices.Contains(but, m) {
				name = m
			}
		}
		if name == "" || c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, name) ||
			!strings.Contains(c.Message, "the cluster's endpoint does not answer the machine") {
			return fmt.Sprintf("%s: %v", name, c)
		}
		return ""
	})
	return name
}

// finding is what a condition said first, once it told of a failure, and when.
type finding struct {
	condition metav1.Condition
	at        time.Time
}

// look notes what conditions of machines say that have failed, and says what is missing until all do.
func (j *joins) look(t *testing.T) string {
	t.Helper()
	var all infrav1.LocalMachineList
	if err := j.management(t).List(context.Background(), &all, client.InNamespace("default")); err != nil {
		return err.Error()
	}
	now := time.Now()
	for i := range all.Items {
		c := conditions.Get(&all.Items[i], infrav1.BootstrapSucceededCondition)
		if _, known := j.found[all.Items[i].Name]; !known && c != nil && machine.BootstrapEnded(unstructuredOf(t, &all.Items[i])) {
			j.found[all.Items[i].Name] = finding{*c, now}
		}
	}
	for _, c := range causes {
		if _, known := j.found[j.machine(c)]; !known {
			return j.machine(c) + " has not failed, or nobody says so"
		}
	}
	return ""
}

func unstructuredOf(t *testing.T, o client.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// judge reports whether the right cause was told in all places, and how long after the end of kubeadm.
func (j *joins) judge(t *testing.T, c cause) (took time.Duration, ok bool) {
	t.Helper()
	got := j.found[j.machine(c)]
	took = got.at.Sub(j.ended(t, c))
	t.Logf("%-14s %-20s %5.1f s  %s", c.name, got.condition.Reason, took.Seconds(), got.condition.Message)
	ok = got.condition.Reason == c.reason
	if !ok {
		t.Errorf("%s: the reason is %s, want %s", c.name, got.condition.Reason, c.reason)
	}
	if !strings.Contains(got.condition.Message, c.line) {
		t.Errorf("%s: the message has no line with %q", c.name, c.line)
	}
	if secret := strings.Split(j.token, ".")[1]; strings.Contains(got.condition.Message, secret) {
		t.Errorf("%s: the message has a token's secret", c.name)
	}
	sentence, _, _ := strings.Cut(got.condition.Message, ". The log says: ")
	eventually(t, "the Machine says it too", time.Minute, func() string { return j.mirrored(t, c, sentence) })
	if out := strings.Join(strings.Fields(j.quorate(t, "status", j.name)), " "); !strings.Contains(out, sentence) {
		t.Errorf("%s: quorate status does not say it:\n%s", c.name, out)
	}
	return took, ok
}

// mirrored says what is missing until the Machine's condition tells the same, in a way that is known to be final.
func (j *joins) mirrored(t *testing.T, c cause, sentence string) string {
	t.Helper()
	m := &clusterv1.Machine{}
	if err := j.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: j.machine(c)}, m); err != nil {
		return err.Error()
	}
	if got := machine.Failure(m, nil, false); !strings.Contains(got, sentence) {
		return fmt.Sprintf("%q", got)
	}
	return ""
}

// recordVersion writes down in the cluster of which version its control plane is, where kubeadm reads it.
func (j *joins) recordVersion(t *testing.T, version string) {
	t.Helper()
	c, _ := j.workload(t, j.name)
	config, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(context.Background(), "kubeadm-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config.Data["ClusterConfiguration"] = strings.Replace(config.Data["ClusterConfiguration"], clusterVersion, version, 1)
	if _, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(context.Background(), config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (j *joins) machine(c cause) string { return j.name + "-" + c.name }

// begin makes a machine that cannot join.
func (j *joins) begin(t *testing.T, c cause) {
	t.Helper()
	d := joinData{version: clusterVersion, endpoint: j.endpoint, token: j.token, caHash: j.hash(t)}
	c.spoil(t, j, &d)
	meta := metav1.ObjectMeta{Namespace: "default", Name: j.machine(c), Labels: map[string]string{clusterv1.ClusterNameLabel: j.name}}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: meta, Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"format": []byte("cloud-config"),
			"value": d.cloudConfig(t)}},
		&infrav1.LocalMachine{ObjectMeta: meta},
		&clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{
			ClusterName: j.name, Version: d.version, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(meta.Name)},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachine",
				Name: meta.Name},
		}},
	} {
		if err := j.management(t).Create(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// ended is when kubeadm on a machine gave up.
func (j *joins) ended(t *testing.T, c cause) time.Time {
	t.Helper()
	text := strings.TrimSpace(j.quorate(t, "shell", j.machine(c), "--", "cat", "/root/ended"))
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(int64(seconds * 1000))
}
