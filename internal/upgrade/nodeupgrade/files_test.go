package nodeupgrade

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// filed makes the NodeUpgrade of a machine of a control plane with files, which it names.
func (s *scene) filed(files ...bootstrapv1.File) *upgradev1.NodeUpgrade {
	s.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "demo-cp", Namespace: "default"}}
	kcp.Spec.KubeadmConfigSpec.Files = files
	m := s.machine("cp-1")
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlane",
		Name: "demo-cp", UID: "cp", Controller: ptr.To(true)}}
	u := &upgradev1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: "cp-1-abc", Namespace: "default", Generation: 1},
		Spec: upgradev1.NodeUpgradeSpec{Machine: upgradev1.MachineReference{Name: "cp-1"}, KubernetesVersion: "v1.36.3",
			NodeType: upgradev1.ControlPlane},
	}
	for _, f := range files {
		u.Spec.Files = append(u.Spec.Files, upgradev1.NodeUpgradeFile{Path: f.Path, Hash: drift.FileHash(f)})
	}
	if err := s.management.Update(s.Context(), m); err != nil {
		s.Fatal(err)
	}
	for _, o := range []client.Object{kcp, u} {
		if err := s.management.Create(s.Context(), o); err != nil {
			s.Fatal(err)
		}
	}
	return u
}

// held is what the files of a NodeUpgrade are to hold, in the managed cluster; nil: nothing was handed over.
func (s *scene) held(u *upgradev1.NodeUpgrade) map[string][]byte {
	s.Helper()
	held, err := s.managed.CoreV1().Secrets("kube-system").Get(s.Context(), upgradepod.Name(u), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return held.Data
}

var fromSecret = bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "mine", Key: "k"}}

// TestFiles: what files hold is handed over with the pod by a secret, is in nothing else, and goes with the pod. Each attempt is given what
// a secret holds then.
func TestFiles(t *testing.T) {
	s := newScene(t)
	u := s.filed(bootstrapv1.File{Path: "/a", Content: "aHVudGVyMQ==", Encoding: bootstrapv1.Base64, Owner: "me", Permissions: "0600"},
		bootstrapv1.File{Path: "/b", ContentFrom: fromSecret})
	for range 3 {
		s.look(u)
	}
	s.expect(s.read(u), upgradev1.WaitingForFiles, "file /b, key k of secret mine")
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "default"}, Data: map[string][]byte{"k": []byte("hunter2")}}
	if err := s.management.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	pod := s.begun(u)
	if got := s.held(u); string(got["0"]) != "hunter1" || string(got["1"]) != "hunter2" || len(got) != 2 {
		t.Errorf("%s", got)
	}
	for _, o := range []any{pod, s.read(u)} {
		if text, err := json.Marshal(o); err != nil || strings.Contains(string(text), "hunter") ||
			strings.Contains(string(text), "aHVudGVyMQ==") {
			t.Errorf("%s, %v", text, err)
		}
	}
	if !strings.Contains(specOf(pod), `"files":[{"path":"/a","owner":"me","permissions":"0600"},{"path":"/b"}]`) {
		t.Errorf("%s", specOf(pod))
	}
	mine.Data["k"] = []byte("hunter3")
	if err := s.management.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	s.end(u, steps.Interrupted)
	s.begun(u)
	if got := s.held(u); string(got["1"]) != "hunter3" {
		t.Errorf("%s", got)
	}
	s.end(u, steps.Done)
	s.look(u)
	if s.held(u) != nil || s.pod(u) != nil {
		t.Error("what files hold is left in the cluster")
	}
}

// TestFilesRefused: an upgrade whose files are not those any more that it was made for, or cannot be written on a live node, fails before
// anything is begun.
func TestFilesRefused(t *testing.T) {
	for name, test := range map[string]struct {
		file   bootstrapv1.File
		change func(*controlplanev1.KubeadmControlPlane)
		want   string
	}{
		"another by now": {bootstrapv1.File{Path: "/a", Content: "hunter1"},
			func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.KubeadmConfigSpec.Files[0].Content = "hunter2" },
			"does not have the file /a any more"},
		"gone": {bootstrapv1.File{Path: "/a", Content: "hunter1"},
			func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.KubeadmConfigSpec.Files = nil }, "does not have the file /a any more"},
		"not encoded":   {bootstrapv1.File{Path: "/a", Content: "hunter1!", Encoding: bootstrapv1.Base64}, nil, `not encoded as "base64"`},
		"filled in":     {bootstrapv1.File{Path: "/a", ContentFrom: fromSecret}, nil, "first boot"},
		"far too large": {bootstrapv1.File{Path: "/a", Content: strings.Repeat("hunter", 200000)}, nil, "more than 900 KiB"},
	} {
		s := newScene(t)
		u := s.filed(test.file)
		if err := s.management.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "default"},
			Data: map[string][]byte{"k": []byte("hunter {{ ds.a }}")}}); err != nil {
			t.Fatal(err)
		}
		if test.change != nil {
			kcp := &controlplanev1.KubeadmControlPlane{}
			if err := s.management.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-cp"}, kcp); err != nil {
				t.Fatal(err)
			}
			test.change(kcp)
			if err := s.management.Update(t.Context(), kcp); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			s.look(u)
		}
		is := s.read(u)
		s.expect(is, upgradev1.Failed, test.want)
		for _, c := range is.Status.Conditions {
			if strings.Contains(c.Message, "hunter") {
				t.Errorf("%s: %s", name, c.Message)
			}
		}
		if s.pod(u) != nil || s.held(u) != nil {
			t.Errorf("%s: it was begun", name)
		}
	}
}
