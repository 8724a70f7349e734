//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// inplaceArgs: the only machine of a control plane gets another argument of the kubelet and files, one of them from a secret, and stays;
// then the argument goes and the files change. An argument that no kubelet knows fails before anything is interrupted, and is forgotten
// with the wish.
//
//quorate:shows kubernetes created newer
func inplaceArgs(t *testing.T, e *environment) {
	const name, pods = "inargs", 77
	const plainFile, secretFile = "/etc/kubernetes/quorate-test.yaml", "/etc/quorate-test/secret"
	e.up(t, name, "--replicas", "1", "--in-place=Only")
	before := uids(e.machineObjects(t, name))
	machine := e.machines(t, name)[0]
	for _, value := range []string{"one", "two"} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-" + value,
				Labels: map[string]string{clusterv1.ClusterNameLabel: name}},
			Data: map[string][]byte{"k": []byte("held " + value)},
		}
		if err := e.management(t).Create(context.Background(), secret); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.management(t).Delete(context.Background(), secret) })
	}
	files := func(value, permissions string) []bootstrapv1.File {
		return []bootstrapv1.File{
			{Path: plainFile, Content: value, Permissions: permissions, Owner: "root:root"},
			{Path: secretFile, ContentFrom: bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: name + "-" + value, Key: "k"}},
				Permissions: "0600"},
		}
	}
	e.reargued(t, name, files("one", "0640"), []bootstrapv1.Arg{{Name: "max-pods", Value: ptr.To(fmt.Sprint(pods))}})
	e.isConfigured(t, name, machine, pods)
	e.hasFile(t, machine, plainFile, "640 root:root one")
	e.hasFile(t, machine, secretFile, "600 root:root held one")

	e.reargued(t, name, files("two", "0644"), nil)
	e.isConfigured(t, name, machine, 110)
	e.hasFile(t, machine, plainFile, "644 root:root two")
	e.hasFile(t, machine, secretFile, "600 root:root held two")

	e.rearguing(t, name, files("two", "0644"), []bootstrapv1.Arg{{Name: "no-such-argument", Value: ptr.To("1")}})
	eventually(t, "the argument is refused", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason != "UpdateFailed" ||
			!strings.Contains(p.Message, "does not know --no-such-argument") {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
	e.reargued(t, name, files("two", "0644"), nil)
	eventually(t, "the node is healthy", patience, e.healthy(t, name, 1))
	if after := uids(e.machineObjects(t, name)); !slices.Equal(before, after) {
		t.Errorf("the machines were %v and are %v: changed in place they stay", before, after)
	}
	e.isVersion(t, name, newer)
	e.nothingLeft(t, name)
	e.takeDown(t, name)
}

// rearguing gives the machines files and arguments of the kubelet, beside those that the control plane was made with.
func (e *environment) rearguing(t *testing.T, name string, files []bootstrapv1.File, args []bootstrapv1.Arg) {
	t.Helper()
	others := func(list []bootstrapv1.Arg) []bootstrapv1.Arg {
		return append(slices.DeleteFunc(slices.Clone(list),
			func(a bootstrapv1.Arg) bool { return a.Name == "max-pods" || a.Name == "no-such-argument" }), args...)
	}
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		spec := &kcp.Spec.KubeadmConfigSpec
		spec.Files = append(slices.DeleteFunc(slices.Clone(spec.Files),
			func(f bootstrapv1.File) bool { return strings.Contains(f.Path, "quorate-test") }), files...)
		for _, node := range []*bootstrapv1.NodeRegistrationOptions{&spec.InitConfiguration.NodeRegistration,
			&spec.JoinConfiguration.NodeRegistration} {
			node.KubeletExtraArgs = others(node.KubeletExtraArgs)
		}
	})
}

// reargued does so, and waits until all is as wanted.
func (e *environment) reargued(t *testing.T, name string, files []bootstrapv1.File, args []bootstrapv1.Arg) {
	t.Helper()
	e.rearguing(t, name, files, args)
	took := eventually(t, "all is as wanted", 2*patience, func() string {
		kcp := e.controlPlane(t, name)
		if p := kcp.Status.Plan; kcp.Status.ObservedGeneration != kcp.Generation || p.Step != string(plan.Nothing) ||
			kcp.Status.UpToDateReplicas == nil || *kcp.Status.UpToDateReplicas != *kcp.Spec.Replicas {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
	t.Logf("FIGURE %d files and %d arguments of the kubelet, in place: %.1f s", len(files), len(args), took.Seconds())
}

// isConfigured expects that the kubelet of a machine says how many pods it may have, and that its flags say so too.
func (e *environment) isConfigured(t *testing.T, name, machine string, pods int) {
	t.Helper()
	c, _ := e.workload(t, name)
	eventually(t, fmt.Sprintf("the kubelet may have %d pods", pods), patience, func() string {
		said, err := c.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + machine + "/proxy/configz").DoRaw(context.Background())
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(string(said), fmt.Sprintf(`"maxPods":%d,`, pods)) {
			return string(said)
		}
		return ""
	})
	const file = "/var/lib/kubelet/kubeadm-flags.env"
	flags, err := e.try("shell", machine, "--", "cat", file)
	if err != nil || strings.Contains(flags, fmt.Sprintf("--max-pods=%d", pods)) != (pods != 110) ||
		strings.Contains(flags, "no-such-argument") {
		t.Errorf("%s has %s, %v", file, flags, err)
	}
}

// hasFile expects a file of a machine: its permissions, its owner and what it holds.
func (e *environment) hasFile(t *testing.T, machine, path, want string) {
	t.Helper()
	got, err := e.try("shell", machine, "--", "bash", "-c", "stat -c '%a %U:%G' "+path+" && cat "+path)
	if got = strings.Join(strings.Fields(got), " "); got != want || err != nil {
		t.Errorf("%s of %s is %q, %v; want %q", path, machine, got, err, want)
	}
}
