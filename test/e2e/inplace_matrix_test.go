//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	kcpv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

const (
	matrixName = "inmatrix"
	// matrixNode is the name of the Node: the kubelet writes the machine's host name, InMatrix.Example.com, in lower case.
	matrixNode  = "inmatrix.example.com"
	matrixCerts = "/etc/kubernetes/ssl"
	matrixData  = "/var/lib/etcd-elsewhere/data"
	matrixStray = "/etc/kubernetes/manifests/etcd.yaml.bak"
	keptBy      = "example.com/kept-by"
	othersProxy = "proxy-of-others"
)

// matrixCluster is what kubeadm's configuration of the cluster says beyond its defaults.
const matrixCluster = `      encryptionAlgorithm: ECDSA-P256
      certificatesDir: ` + matrixCerts + `
      etcd:
        local:
          dataDir: ` + matrixData + `
          extraArgs:
          - {name: listen-client-urls, value: "https://0.0.0.0:2379"}
      apiServer:
        extraArgs:
        - {name: audit-policy-file, value: /etc/kubernetes/audit/policy.yaml}
        - {name: audit-log-path, value: /var/log/kubernetes/audit.log}
        - {name: encryption-provider-config, value: /etc/kubernetes/encryption/config.yaml}
        extraVolumes:
        - {name: audit, hostPath: /etc/kubernetes/audit, mountPath: /etc/kubernetes/audit, readOnly: true, pathType: DirectoryOrCreate}
        - {name: audit-log, hostPath: /var/log/kubernetes, mountPath: /var/log/kubernetes, readOnly: false, pathType: DirectoryOrCreate}
        - {name: encryption, hostPath: /etc/kubernetes/encryption, mountPath: /etc/kubernetes/encryption, readOnly: true, pathType: DirectoryOrCreate}
`

// matrixFiles are files of the machine: policies, a patch of kubeadm's, and static pods of users.
const matrixFiles = `    files:
    - path: /etc/kubernetes/audit/policy.yaml
      content: |
        apiVersion: audit.k8s.io/v1
        kind: Policy
        rules: [{level: Metadata}]
    - path: /etc/kubernetes/encryption/config.yaml
      permissions: "0600"
      content: |
        apiVersion: apiserver.config.k8s.io/v1
        kind: EncryptionConfiguration
        resources:
        - resources: [secrets]
          providers:
          - secretbox: {keys: [{name: one, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}
          - identity: {}
    - path: /etc/quorate/patches/kube-scheduler0+merge.yaml
      content: |
        metadata: {annotations: {` + keptBy + `: patch}}
    - path: /etc/kubernetes/manifests/kube-vip.yaml
      content: |
        apiVersion: v1
        kind: Pod
        metadata: {name: kube-vip, namespace: kube-system}
        spec:
          hostNetwork: true
          containers: [{name: kube-vip, image: PAUSE, volumeMounts: [{name: kubeconfig, mountPath: /etc/kubernetes/admin.conf}]}]
          volumes: [{name: kubeconfig, hostPath: {path: /etc/kubernetes/admin.conf}}]
    - path: /etc/kubernetes/manifests/mine.yaml
      content: |
        apiVersion: v1
        kind: Pod
        metadata: {name: mine, namespace: default}
        spec: {containers: [{name: mine, image: PAUSE}]}
`

// matrixCase is one way in which the node differs from kubeadm's default, and what is wrong with it after the update; empty: nothing.
type matrixCase struct {
	name  string
	check func() string
}

// matrix is the cluster of one machine, and what was there before the update.
type matrix struct {
	*testing.T
	e       *environment
	c       *kubernetes.Clientset
	machine string
	before  map[string]string
}

// inplaceMatrix: a machine that differs from kubeadm's defaults in many ways becomes another version in place, and differs in the same
// ways. A second manifest of a component is named before anything is interrupted.
//
//quorate:shows kubernetes in-place older>newer
func inplaceMatrix(t *testing.T, e *environment) {
	m := newMatrix(t, e)
	defer e.takeDown(t, matrixName)
	machines := uids(e.machineObjects(t, matrixName))
	m.prepare()
	m.note()
	m.shell("cp /etc/kubernetes/manifests/etcd.yaml " + matrixStray)
	e.change(t, matrixName, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Version, kcp.Spec.InPlace.Policy = newer, controlplanev1.InPlaceOnly
		node := &kcp.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration
		node.KubeletExtraArgs = append(node.KubeletExtraArgs, bootstrapv1.Arg{Name: "max-pods", Value: ptr.To("77")})
	})
	stray := ""
	eventually(t, "the second manifest of etcd is named", patience, func() string {
		p := e.controlPlane(t, matrixName).Status.Plan
		if stray = p.Message; p.Reason != "UpdateFailed" {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
	if version := m.node().Status.NodeInfo.KubeletVersion; version != older {
		t.Errorf("the kubelet is of %s, and nothing was to be interrupted", version)
	}
	m.shell("rm " + matrixStray)
	e.quorate(t, "upgrade", "retry", matrixName)
	eventually(t, "the machine says the newer version", 2*patience, func() string {
		if o := e.machineObjects(t, matrixName)[0]; o.Spec.Version != newer {
			return o.Spec.Version + ": " + e.controlPlane(t, matrixName).Status.Plan.Message
		}
		return ""
	})
	eventually(t, "the node is healthy", patience, e.healthy(t, matrixName, 1))
	if after := uids(e.machineObjects(t, matrixName)); !slices.Equal(machines, after) {
		t.Errorf("the machines were %v and are %v: updated in place they stay", machines, after)
	}
	cases := append(m.cases(),
		matrixCase{"a stray copy of a manifest", func() string { return lacks(stray, matrixStray+" is a second manifest of etcd") }})
	failed := 0
	for _, c := range cases {
		if wrong := c.check(); wrong != "" {
			failed++
			t.Errorf("%s: %s", c.name, wrong)
		}
	}
	t.Logf("FIGURE inplace-matrix: %d cases; %d failed", len(cases), failed)
	e.atRest(t, matrixName)
	e.nothingLeft(t, matrixName)
}

// newMatrix makes the cluster.
func newMatrix(t *testing.T, e *environment) *matrix {
	t.Helper()
	text := e.quorate(t, "up", "--dry-run", "--name", matrixName, "--replicas", "1", "--kubernetes-version", older)
	const registration = "    initConfiguration:\n      nodeRegistration:\n"
	file := writeManifests(t, matrixName, text,
		"      encryptionAlgorithm: ECDSA-P256\n", matrixCluster,
		"    files:\n", strings.ReplaceAll(matrixFiles, "PAUSE", pauseImage),
		registration, "    initConfiguration:\n      skipPhases: [bootstrap-token, show-join-command]\n      nodeRegistration:\n        "+
			"kubeletExtraArgs:\n        - {name: eviction-hard, value: '\"memory.available<50Mi\"'}\n",
		"    preKubeadmCommands:\n", // A name that nobody resolves has the kubelet wait 20 s for DNS, again and again.
		"    preKubeadmCommands:\n    - hostname InMatrix.Example.com\n    - sed -i 's/ "+matrixName+"-cp-1$/& "+matrixNode+"/' /etc/hosts\n")
	e.quorate(t, "up", "--network", e.network, "--timeout", "10m", "-f", file)
	m := &matrix{T: t, e: e, machine: e.machines(t, matrixName)[0], before: map[string]string{}}
	m.c, _ = e.workload(t, matrixName)
	eventually(t, "the node is healthy", patience, e.healthy(t, matrixName, 1))
	return m
}

// pauseImage is an image that machines of the older version have, and that does nothing.
const pauseImage = "registry.k8s.io/pause:3.10.1"

// shell runs a command in the machine and returns what it prints.
func (m *matrix) shell(command string) string {
	m.Helper()
	return strings.TrimSpace(m.e.quorate(m.T, "shell", m.machine, "--", "bash", "-c", command))
}

// node reads the only Node.
func (m *matrix) node() *corev1.Node {
	m.Helper()
	node, err := m.c.CoreV1().Nodes().Get(m.Context(), matrixNode, metav1.GetOptions{})
	if err != nil {
		m.Fatal(err)
	}
	return node
}

// prepare has the node and the cluster differ in what only the time after the first boot can bring: add-ons that others keep, the socket of
// a second runtime, and a certificate behind a link.
func (m *matrix) prepare() {
	m.Helper()
	m.e.change(m.T, matrixName, func(kcp *controlplanev1.KubeadmControlPlane) {
		if kcp.Annotations == nil {
			kcp.Annotations = map[string]string{}
		}
		kcp.Annotations[kcpv1.SkipKubeProxyAnnotation], kcp.Annotations[kcpv1.SkipCoreDNSAnnotation] = "", ""
	})
	m.keepAddOns()
	_, err := m.c.CoreV1().Secrets("default").Create(m.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "held"},
		Data: map[string][]byte{"k": []byte("a secret")}}, metav1.CreateOptions{})
	if err != nil {
		m.Fatal(err)
	}
	// Containers have only the folder of certificates: the file must stay below it.
	m.shell("mkdir -p /run/crio && ln -s /run/containerd/containerd.sock /run/crio/crio.sock" +
		" && cd " + matrixCerts + " && mkdir linked && mv front-proxy-client.crt linked/ && ln -s linked/front-proxy-client.crt " +
		"front-proxy-client.crt")
	eventually(m.T, "the add-ons are as others keep them", patience, m.e.healthy(m.T, matrixName, 1))
}

// keepAddOns changes CoreDNS, and replaces kube-proxy by a DaemonSet with another name that does the same, as users who keep the add-ons
// themselves may do. Without anything in kube-proxy's place no pod reaches the API server's Service, and CoreDNS never becomes ready.
func (m *matrix) keepAddOns() {
	m.Helper()
	ctx := m.Context()
	sets, maps := m.c.AppsV1().DaemonSets(metav1.NamespaceSystem), m.c.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	set, err1 := sets.Get(ctx, "kube-proxy", metav1.GetOptions{})
	config, err2 := maps.Get(ctx, "kube-proxy", metav1.GetOptions{})
	kept := []byte(`{"spec":{"template":{"metadata":{"annotations":{"` + keptBy + `":"others"}}}}}`)
	_, err3 := m.c.AppsV1().Deployments(metav1.NamespaceSystem).Patch(ctx, "coredns", types.MergePatchType, kept, metav1.PatchOptions{})
	err4 := sets.Delete(ctx, "kube-proxy", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	err5 := maps.Delete(ctx, "kube-proxy", metav1.DeleteOptions{})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		m.Fatal(err)
	}
	eventually(m.T, "kube-proxy is gone with its pods", patience, func() string {
		_, err := sets.Get(ctx, "kube-proxy", metav1.GetOptions{})
		return gone("kube-proxy", err)
	})
	config.ObjectMeta = metav1.ObjectMeta{Name: othersProxy}
	labels := map[string]string{"app": othersProxy}
	set.ObjectMeta = metav1.ObjectMeta{Name: othersProxy}
	set.Spec.Selector, set.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	for i, v := range set.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil {
			set.Spec.Template.Spec.Volumes[i].ConfigMap.Name = othersProxy
		}
	}
	_, err1 = maps.Create(ctx, config, metav1.CreateOptions{})
	_, err2 = sets.Create(ctx, set, metav1.CreateOptions{})
	if err := errors.Join(err1, err2); err != nil {
		m.Fatal(err)
	}
}

// note keeps what is there before.
func (m *matrix) note() {
	m.Helper()
	for _, name := range []string{"apiserver.crt", "front-proxy-client.crt"} {
		m.before[name] = m.shell("sha256sum <" + matrixCerts + "/" + name)
	}
	for _, name := range []string{"kube-vip", "mine"} {
		m.before[name] = m.staticPod(name)
	}
}

// staticPod is the checksum of the manifest of a user's static pod, if that runs. A newer kubelet may start it again: it adds defaults to
// what it reads.
func (m *matrix) staticPod(name string) string {
	m.Helper()
	namespace := map[string]string{"kube-vip": metav1.NamespaceSystem, "mine": "default"}[name]
	pod, err := m.c.CoreV1().Pods(namespace).Get(m.Context(), name+"-"+matrixNode, metav1.GetOptions{})
	if err != nil || len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Running == nil {
		return fmt.Sprintf("pod %s does not run: %v", name, err)
	}
	return m.shell("sha256sum </etc/kubernetes/manifests/" + name + ".yaml")
}

// lacks says what a text does not have; empty: it has all.
func lacks(text string, wanted ...string) string {
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			return fmt.Sprintf("no %q in\n%s", w, text)
		}
	}
	return ""
}

// gone says that something is there; empty: it is not.
func gone(what string, err error) string {
	if !apierrors.IsNotFound(err) {
		return fmt.Sprintf("%s is there, or is not known: %v", what, err)
	}
	return ""
}

// differs says that something is as before; empty: it is not.
func differs(before, now string) string {
	if before == now {
		return "it is as before: " + now
	}
	return ""
}

// equals says that something is not as before; empty: it is.
func equals(before, now string) string {
	if before != now {
		return fmt.Sprintf("it was %s, and is %s", before, now)
	}
	return ""
}

// cases are all that is verified after the update.
func (m *matrix) cases() []matrixCase {
	return slices.Concat(m.casesOfMachine(), m.casesOfManifests(), m.casesOfCluster())
}

// casesOfMachine are about the machine's own files and names.
func (m *matrix) casesOfMachine() []matrixCase {
	return []matrixCase{
		{"an uppercase host name", func() string { return equals("InMatrix.Example.com", m.shell("hostname")) }},
		{"a FQDN as node name", func() string { return equals(newer, m.node().Status.NodeInfo.KubeletVersion) }},
		{"certificates in another folder", func() string {
			return differs(m.before["apiserver.crt"], m.shell("sha256sum <"+matrixCerts+"/apiserver.crt")) + m.shell("ls -d /etc/kubernetes/pki "+
				"2>/dev/null || true")
		}},
		{"a certificate behind a link", func() string {
			return differs(m.before["front-proxy-client.crt"], m.shell("sha256sum <"+matrixCerts+"/linked/front-proxy-client.crt")) +
				equals("linked/front-proxy-client.crt", m.shell("readlink "+matrixCerts+"/front-proxy-client.crt"))
		}},
		{"a quoted argument of the kubelet", func() string {
			return lacks(m.shell("cat /var/lib/kubelet/kubeadm-flags.env"), `--eviction-hard=\"memory.available<50Mi\"`, "--max-pods=77") +
				lacks(m.configz(), `"evictionHard":{"memory.available":"50Mi"`, `"maxPods":77,`)
		}},
		{"sockets of two runtimes", func() string { return lacks(m.shell("readlink /run/crio/crio.sock"), "containerd") }},
	}
}

// configz is what the kubelet says of its configuration.
func (m *matrix) configz() string {
	said, err := m.c.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + matrixNode + "/proxy/configz").DoRaw(m.Context())
	if err != nil {
		return err.Error()
	}
	return string(said)
}

// casesOfManifests are about static pods.
func (m *matrix) casesOfManifests() []matrixCase {
	manifest := func(name string) string { return m.shell("cat /etc/kubernetes/manifests/" + name + ".yaml") }
	return []matrixCase{
		{"other folder of etcd's data", func() string {
			return lacks(manifest("etcd"), "--data-dir="+matrixData) + m.shell("ls -d /var/lib/etcd/member 2>/dev/null || true")
		}},
		{"etcd listens on all addresses", func() string { return lacks(manifest("etcd"), "--listen-client-urls=https://0.0.0.0:2379") }},
		{"extra volumes", func() string {
			return lacks(manifest("kube-apiserver"), "mountPath: /etc/kubernetes/audit", "path: /var/log/kubernetes")
		}},
		{"an audit policy", func() string {
			return lacks(m.shell("tail -n 200 /var/log/kubernetes/audit.log"), `"level":"Metadata"`, "kubelet/"+newer)
		}},
		{"patches of kubeadm's", func() string { return lacks(manifest("kube-scheduler"), keptBy+": patch", "kube-scheduler:"+newer) }},
		{"the manifest of kube-vip", func() string { return equals(m.before["kube-vip"], m.staticPod("kube-vip")) }},
		{"a user's own static pod", func() string { return equals(m.before["mine"], m.staticPod("mine")) }},
	}
}

// casesOfCluster are about what the cluster has once.
func (m *matrix) casesOfCluster() []matrixCase {
	ctx, system := context.Background(), metav1.NamespaceSystem
	return []matrixCase{
		{"encryption at rest", func() string {
			held, err := m.c.CoreV1().Secrets("default").Get(ctx, "held", metav1.GetOptions{})
			if err != nil || string(held.Data["k"]) != "a secret" {
				return fmt.Sprintf("%q, %v", held.Data["k"], err)
			}
			return lacks(m.shell("etcdctl get /registry/secrets/default/held --print-value-only | head -c 40 | tr -cd '[:print:]'"),
				"k8s:enc:secretbox:v1:one:")
		}},
		{"kube-proxy left to others", func() string {
			_, err := m.c.AppsV1().DaemonSets(system).Get(ctx, "kube-proxy", metav1.GetOptions{})
			others, err2 := m.c.AppsV1().DaemonSets(system).Get(ctx, othersProxy, metav1.GetOptions{})
			if err2 != nil {
				return err2.Error()
			}
			return gone("kube-proxy", err) + lacks(others.Spec.Template.Spec.Containers[0].Image, older)
		}},
		{"CoreDNS left to others", func() string {
			dns, err := m.c.AppsV1().Deployments(system).Get(ctx, "coredns", metav1.GetOptions{})
			if err != nil || dns.Spec.Template.Annotations[keptBy] != "others" {
				return fmt.Sprintf("%v, %v", dns.Spec.Template.Annotations, err)
			}
			return ""
		}},
		{"bootstrap tokens left to others", func() string {
			_, err := m.c.RbacV1().ClusterRoleBindings().Get(ctx, "kubeadm:get-nodes", metav1.GetOptions{})
			return gone("the ClusterRoleBinding kubeadm:get-nodes", err)
		}},
	}
}
