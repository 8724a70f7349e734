package kubeadm

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func binding(name, role, kind, subject string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: kind, Name: subject}},
	}
}

// TestPermissions: kubeadm before v1.36 put the API servers' client certificate into a group of administrators, later
// versions name only the user; who may do what is written by kubeadm init and upgrade apply, and by nothing that joins.
func TestPermissions(t *testing.T) {
	admins := binding("kubeadm:cluster-admins", "cluster-admin", "Group", "kubeadm:cluster-admins")
	kubelet := binding("kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin", "User", "kube-apiserver-kubelet-client")
	narrowed := binding("kubeadm:apiserver-kubelet-client", "only-metrics", "User", "somebody")
	tests := []struct {
		name    string
		version string
		has     []runtime.Object
		behind  string
		// then are the bindings of the API servers' user and of the administrators afterwards.
		kubelet, admins *rbacv1.ClusterRoleBinding
	}{
		{"made by kubeadm v1.35", "v1.36.3", []runtime.Object{admins}, "ClusterRoleBinding kubeadm:apiserver-kubelet-client is missing", kubelet,
			admins},
		{"made by kubeadm v1.28", "v1.29.0", nil,
			"ClusterRoleBinding kubeadm:cluster-admins is missing; ClusterRoleBinding kubeadm:apiserver-kubelet-client is missing", kubelet, admins},
		{"made by kubeadm v1.36", "v1.36.3", []runtime.Object{admins, kubelet}, "", kubelet, admins},
		{"somebody bound it otherwise", "v1.36.3", []runtime.Object{admins, narrowed}, "", narrowed, admins},
		{"v1.37", "v1.37.2", []runtime.Object{admins}, "ClusterRoleBinding kubeadm:apiserver-kubelet-client is missing", kubelet, admins},
		{"taken away after the last version that may lack it", "v1.38.0-rc.1", []runtime.Object{admins}, "", nil, admins},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := fake.NewClientset(test.has...)
			want := Wanted{Version: test.version}
			behind, err := PermissionsBehind(t.Context(), c, want)
			if err != nil || behind != test.behind {
				t.Fatalf("behind %q, %v, want %q", behind, err, test.behind)
			}
			for range 2 { // the second finds nothing to do
				if err := WritePermissions(t.Context(), c, want); err != nil {
					t.Fatal(err)
				}
			}
			for name, want := range map[string]*rbacv1.ClusterRoleBinding{"kubeadm:apiserver-kubelet-client": test.kubelet,
				"kubeadm:cluster-admins": test.admins} {
				got, err := c.RbacV1().ClusterRoleBindings().Get(t.Context(), name, metav1.GetOptions{})
				switch {
				case want == nil && err == nil:
					t.Errorf("%s was made", name)
				case want != nil && (err != nil || got.RoleRef != want.RoleRef || len(got.Subjects) != 1 || got.Subjects[0] != want.Subjects[0]):
					t.Errorf("%s is %+v, %v", name, got, err)
				}
			}
			if n := count(c, "create"); n > 2 || test.behind == "" && n > 0 || count(c, "update")+count(c, "patch")+count(c, "delete") > 0 {
				t.Errorf("written: %v", c.Actions())
			}
		})
	}
	if _, err := PermissionsBehind(t.Context(), fake.NewClientset(), Wanted{Version: "latest"}); err == nil {
		t.Error("of what is no version: no error")
	}
}
