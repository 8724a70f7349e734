package selfmanaged

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/kubeconfig"
)

// The provider of machines in the management cluster: the daemon on the host.
const (
	providerName      = "quorate-local-provider"
	providerNamespace = "quorate-infrastructure-system"
)

// fieldOwner owns what is applied.
const fieldOwner = client.FieldOwner("quorate-self-managed")

// tokenLimit is how long the cluster may take to make a token.
const tokenLimit = time.Minute

// rules are what the provider of machines does in a management cluster.
func rules() []rbacv1.PolicyRule {
	const infrastructure, upgrade, core = "infrastructure.cluster.x-k8s.io", "upgrade.cluster.x-k8s.io", "cluster.x-k8s.io"
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{infrastructure}, Resources: []string{"localclusters", "localmachines"}, Verbs: append(read, "update", "patch")},
		{APIGroups: []string{infrastructure}, Resources: []string{"localclusters/status", "localmachines/status", "localclusters/finalizers", "localmachines/finalizers"}, Verbs: []string{"get", "update", "patch"}},
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

// grant gives the provider of machines its rights in the cluster, and returns its kubeconfig.
func (r *run) grant(ctx context.Context, admin []byte) ([]byte, error) {
	meta := metav1.ObjectMeta{Name: providerName, Namespace: providerNamespace}
	wide := metav1.ObjectMeta{Name: providerName}
	token := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: *meta.DeepCopy(), Type: corev1.SecretTypeServiceAccountToken,
	}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: providerName}
	group := rbacv1.SchemeGroupVersion.String()
	for _, o := range []client.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: group, Kind: "ClusterRole"}, ObjectMeta: wide, Rules: rules()},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: group, Kind: "ClusterRoleBinding"}, ObjectMeta: wide,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: providerName},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: providerNamespace, Name: providerName}},
		},
		token,
	} {
		//nolint:staticcheck // there are no apply configurations of client.Object
		if err := r.cluster.client.Patch(ctx, o, client.Apply, fieldOwner, client.ForceOwnership); err != nil {
			return nil, fmt.Errorf("giving the provider of machines its rights: %T %s: %w", o, o.GetName(), err)
		}
	}
	var secret []byte
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, tokenLimit, true, func(ctx context.Context) (bool, error) {
		found := &corev1.Secret{}
		if err := r.cluster.client.Get(ctx, client.ObjectKeyFromObject(token), found); err != nil {
			return false, err
		}
		secret = found.Data[corev1.ServiceAccountTokenKey]
		return len(secret) > 0, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the token of the provider of machines: %w", err)
	}
	return withToken(admin, string(secret))
}

// withToken is a kubeconfig to the same server as another one, for who has a token.
func withToken(admin []byte, token string) ([]byte, error) {
	config, err := kubeconfig.Load(admin)
	if err != nil {
		return nil, err
	}
	current := config.Contexts[config.CurrentContext]
	made := clientcmdapi.NewConfig()
	made.Clusters[providerName] = config.Clusters[current.Cluster]
	made.AuthInfos[providerName] = &clientcmdapi.AuthInfo{Token: token}
	made.Contexts[providerName] = &clientcmdapi.Context{Cluster: providerName, AuthInfo: providerName}
	made.CurrentContext = providerName
	data, err := clientcmd.Write(*made)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig of the provider of machines: %w", err)
	}
	return data, nil
}
