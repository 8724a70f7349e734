package provider

import (
	"context"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// tokenLimit is how long a cluster may take to tell of a token: the machine waits for its data meanwhile.
const tokenLimit = 2 * time.Second

// token finds the bootstrap token in data: six characters, a dot, sixteen.
var token = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)

// knownToken is the bootstrap token in a machine's data, if the cluster knows it now. A cluster forgets tokens that have expired, so that
// afterwards it looks like a token that was never made. What cannot be found out holds up nothing.
func (r *machineReconciler) knownToken(ctx context.Context, of owner, data []byte) infrav1.BootstrapTokenStatus {
	found := token.FindSubmatch(data)
	if found == nil || r.workload == nil {
		return infrav1.BootstrapTokenStatus{}
	}
	ctx, cancel := context.WithTimeout(ctx, tokenLimit)
	defer cancel()
	id, secret := string(found[1]), &corev1.Secret{}
	c, err := r.workload(ctx, client.ObjectKeyFromObject(of.cluster))
	if err == nil {
		err = c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id}, secret)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("the cluster reports nothing about the machine's bootstrap token", "token", id, "why", err.Error())
		return infrav1.BootstrapTokenStatus{}
	}
	known := infrav1.BootstrapTokenStatus{ID: id}
	if at, err := time.Parse(time.RFC3339, string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey])); err == nil {
		known.ExpirationTime = metav1.NewTime(at)
	}
	return known
}
