package selfmanaged

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/local/embed"
)

// fieldOwner owns what is applied.
const fieldOwner = client.FieldOwner("quorate-self-managed")

// rules are what the provider of machines does in a management cluster.
func rules() []rbacv1.PolicyRule {
	const infrastructure, upgrade, core = "infrastructure.cluster.x-k8s.io", "upgrade.cluster.x-k8s.io", "cluster.x-k8s.io"
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{infrastructure}, Resources: []string{"localclusters", "localmachines"}, Verbs: append(read, "update", "patch")},
		{APIGroups: []string{infrastructure}, Resources: []string{"localclusters/status", "localmachines/status", "localclusters/finalizers",
			"localmachines/finalizers"}, Verbs: []string{"get", "update", "patch"}},
		{APIGroups: []string{infrastructure}, Resources: []string{"localmachinetemplates", "localclustertemplates"}, Verbs: read},
		{APIGroups: []string{core}, Resources: []string{"clusters", "machines"}, Verbs: read},
		{APIGroups: []string{"etcdcluster.cluster.x-k8s.io"}, Resources: []string{"etcdclusters"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{upgrade}, Resources: []string{"nodeupgrades", "controlplaneupgrades", "machinedeploymentupgrades"}, Verbs: read},
		{APIGroups: []string{upgrade}, Resources: []string{"nodeupgrades/status"}, Verbs: []string{"patch"}},
		// Bootstrap data and kubeconfigs, one by one.
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// ownRules are what it does with its own ServiceAccount: ask for its next token, before the one that it has ends.
func ownRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{embed.ProviderName},
			Verbs: []string{"create"},
		},
	}
}

// grant gives the provider of machines its rights in the cluster, and returns its kubeconfig. That has no token: the daemon asks for one
// when it needs it.
func (r *run) grant(ctx context.Context, admin []byte) ([]byte, error) {
	for _, o := range granted() {
		//nolint:staticcheck // there are no apply configurations of client.Object
		if err := r.cluster.client.Patch(ctx, o, client.Apply, fieldOwner, client.ForceOwnership); err != nil {
			return nil, fmt.Errorf("giving the provider of machines its rights: %T %s: %w", o, o.GetName(), err)
		}
	}
	return providerKubeconfig(admin)
}

// granted are the objects that give the provider of machines its rights.
func granted() []client.Object {
	meta := metav1.ObjectMeta{Name: embed.ProviderName, Namespace: embed.ProviderNamespace}
	wide := metav1.ObjectMeta{Name: embed.ProviderName}
	group := rbacv1.SchemeGroupVersion.String()
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}}
	return []client.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: group, Kind: "ClusterRole"}, ObjectMeta: wide, Rules: rules()},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: group, Kind: "ClusterRoleBinding"}, ObjectMeta: wide,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wide.Name}, Subjects: subjects,
		},
		&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: group, Kind: "Role"}, ObjectMeta: meta, Rules: ownRules()},
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: group, Kind: "RoleBinding"}, ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: subjects,
		},
	}
}

// providerKubeconfig returns a kubeconfig to the same server as another one, for a user with a token that is kept elsewhere.
func providerKubeconfig(admin []byte) ([]byte, error) {
	config, err := kubeconfig.Load(admin)
	if err != nil {
		return nil, err
	}
	current := config.Contexts[config.CurrentContext]
	const name = embed.ProviderName
	made := clientcmdapi.NewConfig()
	made.Clusters[name] = config.Clusters[current.Cluster]
	made.AuthInfos[name] = &clientcmdapi.AuthInfo{}
	made.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	made.CurrentContext = name
	data, err := clientcmd.Write(*made)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig of the provider of machines: %w", err)
	}
	return data, nil
}
