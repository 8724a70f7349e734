package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
)

// clientLife is how long a machine's own client certificate is good: as long as those that etcdadm makes there.
const clientLife = 365 * 24 * time.Hour

// bootstrap writes the data, or returns what they wait for.
func (r *Controller) bootstrap(ctx context.Context, s *scope) (*obstacle, error) {
	if o := s.missing(); o != nil {
		return o, nil
	}
	if s.done() {
		return nil, r.dropKeys(ctx, s)
	}
	wrong := etcdadm.Validate(&s.config.Spec, field.NewPath("spec"))
	if wrong = append(wrong, etcdadm.ValidateKept(s.config)...); len(wrong) > 0 {
		return waits(bootstrapv1alpha1.SpecInvalidReason, "%v", wrong.ToAggregate()), nil
	}
	member := etcdadm.Member{Name: s.machine.Name}
	for _, add := range []func(context.Context, *scope, *etcdadm.Member) (*obstacle,
		error){r.addRole, r.addCredentials, r.addSpec, r.addSANs} {
		if o, err := add(ctx, s, &member); o != nil || err != nil {
			return o, err
		}
	}
	data, format, err := etcdadm.Data(member)
	if err != nil {
		return nil, fmt.Errorf("rendering the bootstrap data of %s: %w", s.machine.Name, err)
	}
	metav1.SetMetaDataAnnotation(&s.config.ObjectMeta, bootstrapv1alpha1.ServerNamesAnnotation, strings.Join(member.SANs, ","))
	return nil, r.store(ctx, s, data, format)
}

// done reports whether there are bootstrap data. After a move the status is lost, and the Machine still names them.
func (s *scope) done() bool {
	named := ptr.Deref(s.machine.Spec.Bootstrap.DataSecretName, "")
	if named != "" && !ptr.Deref(s.config.Status.Initialization.DataSecretCreated, false) {
		s.config.Status.DataSecretName = named
		s.config.Status.Initialization.DataSecretCreated = ptr.To(true)
	}
	s.config.Status.Ready = s.config.Status.Initialization.DataSecretCreated
	if !ptr.Deref(s.config.Status.Initialization.DataSecretCreated, false) {
		return false
	}
	available(s.config, bootstrapv1alpha1.DataSecretAvailableCondition)
	available(s.config, bootstrapv1alpha1.CertificatesAvailableCondition)
	return true
}

// addCredentials adds the authority, which is made for the first member only, and the machine's client certificate.
func (r *Controller) addCredentials(ctx context.Context, s *scope, m *etcdadm.Member) (*obstacle, error) {
	authority, err := r.authority(ctx, s, m.Role)
	o := &obstacle{condition: bootstrapv1alpha1.CertificatesAvailableCondition, unwatched: true}
	flaw, isFlaw := errors.AsType[*certs.FlawError](err)
	switch {
	case isFlaw:
		o.reason, o.message = bootstrapv1alpha1.AuthorityInvalidReason, flaw.Error()
		return o, nil
	case err != nil:
		return nil, err
	case authority == nil:
		o.reason = bootstrapv1alpha1.AuthorityMissingReason
		o.message = fmt.Sprintf("the secret of the authority of EtcdCluster %s is missing: restore it, as members trust no other", s.etcd.Name)
		return o, nil
	}
	available(s.config, bootstrapv1alpha1.CertificatesAvailableCondition)
	m.Authority.Cert, m.Authority.Key = authority.PEM()
	m.Client.Cert, m.Client.Key, err = authority.Client(s.machine.Name+"-etcdctl", clientLife)
	return nil, err
}

// authority is the etcd cluster's; nil: it has none. The first member has it made, and published for control planes.
func (r *Controller) authority(ctx context.Context, s *scope, role etcdadm.Role) (*certs.EtcdAuthority, error) {
	found, err := certs.ManagedEtcdAuthority(ctx, r.Client, s.cluster)
	if err != nil || role != etcdadm.Init {
		return found, err
	}
	owner := *metav1.NewControllerRef(s.etcd, etcdclusterv1alpha1.GroupVersion.WithKind("EtcdCluster"))
	if found == nil {
		if err := certs.GenerateManagedEtcd(ctx, r.Client, s.cluster, owner); err != nil {
			return nil, err
		}
		if found, err = certs.ManagedEtcdAuthority(ctx, r.Client, s.cluster); err != nil || found == nil {
			return nil, err
		}
	}
	return found, found.PublishManagedEtcd(ctx, r.Client, r.Client, s.cluster, owner)
}

// addSpec adds the spec, with the content of secrets in place of references to them.
func (r *Controller) addSpec(ctx context.Context, s *scope, m *etcdadm.Member) (*obstacle, error) {
	m.Spec = s.config.Spec.DeepCopy()
	for i := range m.Spec.Files {
		f := &m.Spec.Files[i]
		from := f.ContentFrom.Secret
		if o, err := r.secret(ctx, s.config, fmt.Sprintf("spec.files[%d]", i), from.Name, from.Key, &f.Content); o != nil || err != nil {
			return o, err
		}
	}
	for i := range m.Spec.Users {
		u := &m.Spec.Users[i]
		from := u.PasswdFrom.Secret
		at := fmt.Sprintf("spec.users[%d]", i)
		if o, err := r.secret(ctx, s.config, at, from.Name, from.Key, &u.Passwd); o != nil || err != nil {
			return o, err
		}
		if !utf8.ValidString(u.Passwd) {
			o := waits(bootstrapv1alpha1.SpecInvalidReason, "%s: key %s of secret %s must be the hash of a password, and is not UTF-8 text", at,
				from.Key, from.Name)
			o.unwatched = true
			return o, nil
		}
	}
	return nil, nil
}

// secret reads what a field refers to into another one; without a name it leaves that alone.
func (r *Controller) secret(
	ctx context.Context, config *bootstrapv1alpha1.EtcdadmConfig, at, name, key string, into *string,
) (*obstacle, error) {
	if name == "" {
		return nil, nil
	}
	found := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading secret %s for %s of EtcdadmConfig %s: %w", name, at, config.Name, err)
	}
	data, ok := found.Data[key]
	if err != nil || !ok {
		missing := waits(bootstrapv1alpha1.SecretMissingReason, "%s refers to key %s of secret %s, which does not exist", at, key, name)
		missing.unwatched = true
		return missing, nil
	}
	*into = string(data)
	return nil, nil
}

// addSANs adds the names by which the etcd cluster is reached as a whole: the user's, and what the infrastructure offers. Both are in
// the certificates of all members, so that a control plane can go from one to the other.
func (r *Controller) addSANs(ctx context.Context, s *scope, m *etcdadm.Member) (*obstacle, error) {
	offered, err := r.offered(ctx, s.cluster)
	if refused := machine.Refused(err); refused != nil {
		o := waits(bootstrapv1alpha1.ReferenceRefusedReason, "spec.infrastructureRef of Cluster %s: %s", s.cluster.Name, refused.Error())
		o.unwatched = true
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range []string{host(s.etcd.Spec.Endpoint), offered} {
		if name == "" || slices.Contains(m.SANs, name) {
			continue
		}
		if wrong := etcdadm.WrongSAN(name); wrong != "" {
			return waits(bootstrapv1alpha1.SpecInvalidReason, "the endpoint of EtcdCluster %s: %s", s.etcd.Name, wrong), nil
		}
		m.SANs = append(m.SANs, name)
	}
	return nil, nil
}

// offered is the host of the endpoint that the cluster's infrastructure has for etcd; empty: it has none.
func (r *Controller) offered(ctx context.Context, cluster *clusterv1.Cluster) (string, error) {
	ref := cluster.Spec.InfrastructureRef
	if !ref.IsDefined() {
		return "", nil
	}
	infrastructure, err := machine.InfrastructureRef.Find(ctx, r.Client, ref, cluster.Namespace)
	if err != nil {
		return "", fmt.Errorf("reading %s %s, which may offer an endpoint for etcd: %w", ref.Kind, ref.Name, err)
	}
	name, _, err := unstructured.NestedString(infrastructure.Object, "status", "etcdEndpoint", "host")
	if err != nil {
		return "", fmt.Errorf("reading status.etcdEndpoint.host of %s %s: %w", ref.Kind, ref.Name, err)
	}
	return name, nil
}

// host is an endpoint without scheme and port.
func host(endpoint string) string {
	endpoint = strings.TrimPrefix(endpoint, "https://")
	if name, _, err := net.SplitHostPort(endpoint); err == nil {
		return name
	}
	return strings.Trim(endpoint, "[]")
}

// store writes the data into the configuration's secret. One that is there already is of an earlier try: no machine was told of it.
func (r *Controller) store(ctx context.Context, s *scope, data []byte, format bootstrapv1alpha1.Format) error {
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.config.Namespace, Name: s.config.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.config, bootstrapv1alpha1.GroupVersion.WithKind("EtcdadmConfig"))},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": data, "format": []byte(format)},
	}
	err := r.Client.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		err = r.replace(ctx, s, made)
	}
	if err != nil {
		return fmt.Errorf("writing the bootstrap data of %s: %w", s.machine.Name, err)
	}
	s.config.Status.DataSecretName = made.Name
	s.config.Status.Initialization.DataSecretCreated, s.config.Status.Ready = ptr.To(true), ptr.To(true)
	available(s.config, bootstrapv1alpha1.DataSecretAvailableCondition)
	return nil
}

// replace writes data over those of an earlier try, and over no other data.
func (r *Controller) replace(ctx context.Context, s *scope, made *corev1.Secret) error {
	found := &corev1.Secret{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(made), found); err != nil {
		return err
	}
	if !metav1.IsControlledBy(found, s.config) {
		return fmt.Errorf("secret %s exists, and is not of EtcdadmConfig %s", found.Name, s.config.Name)
	}
	found.Data = made.Data
	return r.Client.Update(ctx, found)
}
