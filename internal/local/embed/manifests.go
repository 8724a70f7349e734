package embed

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/config/crd"
	"github.com/quorate/quorate/config/rbac"
	"github.com/quorate/quorate/config/webhook"
)

// manifests are what is put into a new management plane before its controllers start.
type manifests struct {
	crds  []*apiextensionsv1.CustomResourceDefinition
	hooks []client.Object
	rbac  []client.Object
}

// readManifests reads Cluster API's manifests from a folder, and Quorate's own. Webhooks call the server at base, which
// shows a certificate of authority.
func readManifests(upstream string, base string, authority []byte) (*manifests, error) {
	m := &manifests{}
	for _, source := range []struct {
		name  string
		files fs.FS
	}{
		{"cluster-api", os.DirFS(upstream)},
		{"quorate", crd.Files},
		{"quorate", rbac.Files},
		{"quorate", webhook.Files},
	} {
		if err := m.readAll(source.name, source.files); err != nil {
			return nil, err
		}
	}
	if len(m.crds) == 0 || len(m.hooks) == 0 {
		return nil, fmt.Errorf("%s holds no manifests of Cluster API", upstream)
	}
	for _, c := range m.crds {
		adaptCRD(c, base, authority)
	}
	for _, h := range m.hooks {
		adaptWebhooks(h, base, authority)
	}
	m.rbac = append(m.rbac, localRole())
	m.bindRoles()
	return m, nil
}

func (m *manifests) readAll(source string, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		// Names of upstream's objects are made for a namespace each, and repeat.
		prefix := strings.Trim(source+"-"+strings.ReplaceAll(path.Dir(name), "/", "-"), "-.")
		if err := m.read(prefix, data); err != nil {
			return fmt.Errorf("reading the manifest %s of %s: %w", name, source, err)
		}
		return nil
	})
}

// read takes the documents of the kinds that a management plane needs; others are for deployments in a cluster.
func (m *manifests) read(prefix string, data []byte) error {
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return err
		}
		if err := m.take(prefix, kind.Kind, document); err != nil {
			return fmt.Errorf("%s: %w", kind.Kind, err)
		}
	}
}

// takenKinds are the kinds that a management plane needs.
var takenKinds = map[string]func() client.Object{
	"CustomResourceDefinition":       func() client.Object { return &apiextensionsv1.CustomResourceDefinition{} },
	"MutatingWebhookConfiguration":   func() client.Object { return &admissionv1.MutatingWebhookConfiguration{} },
	"ValidatingWebhookConfiguration": func() client.Object { return &admissionv1.ValidatingWebhookConfiguration{} },
	"ClusterRole":                    func() client.Object { return &rbacv1.ClusterRole{} },
}

func (m *manifests) take(prefix, kind string, document []byte) error {
	newObject, ok := takenKinds[kind]
	if !ok {
		return nil
	}
	obj := newObject()
	if err := yaml.UnmarshalStrict(document, obj); err != nil {
		return err
	}
	switch o := obj.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		// Without versions it is a patch for kustomize.
		if len(o.Spec.Versions) > 0 {
			m.crds = append(m.crds, o)
		}
	case *rbacv1.ClusterRole:
		o.Name = prefix + "-" + o.Name
		m.rbac = append(m.rbac, o)
	default:
		obj.SetName(prefix + "-" + obj.GetName())
		m.hooks = append(m.hooks, obj)
	}
	return nil
}

// Labels of a CRD by which Cluster API's tools find what they may move, and whose it is.
const (
	moveLabel     = "clusterctl.cluster.x-k8s.io"
	providerLabel = "cluster.x-k8s.io/provider"
)

// adaptCRD sends conversions to the webhook server, and adds the labels that upstream's packaging adds.
func adaptCRD(c *apiextensionsv1.CustomResourceDefinition, base string, authority []byte) {
	labels := c.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[moveLabel] = ""
	if labels[providerLabel] == "" {
		labels[providerLabel] = "cluster-api"
		if strings.HasPrefix(c.Spec.Group, "bootstrap.") {
			labels[providerLabel] = "bootstrap-kubeadm"
		}
		// The contract's version is that of upstream's own kinds.
		for _, v := range c.Spec.Versions {
			if contract := clusterv1.GroupVersion.Group + "/" + v.Name; v.Name == "v1beta1" || v.Name == "v1beta2" {
				labels[contract] = v.Name
			}
		}
	}
	c.SetLabels(labels)
	if len(c.Spec.Versions) < 2 {
		return
	}
	url := base + "/convert"
	c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: authority},
		},
	}
}

// adaptWebhooks sends the calls of webhooks to the webhook server instead of a Service.
func adaptWebhooks(obj client.Object, base string, authority []byte) {
	adapt := func(c *admissionv1.WebhookClientConfig) {
		if c.Service == nil || c.Service.Path == nil {
			return
		}
		url := base + *c.Service.Path
		c.URL, c.Service, c.CABundle = &url, nil, authority
	}
	switch o := obj.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			adapt(&o.Webhooks[i].ClientConfig)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			adapt(&o.Webhooks[i].ClientConfig)
		}
	}
}

// managerRole is the role of Quorate's own controllers, in every management cluster.
const managerRole = "quorate-quorate-manager"

// upgradeGroup is the API group of upgrades in place.
const upgradeGroup = "upgrade.cluster.x-k8s.io"

// localRole is what the local provider and the webhooks need beside what Cluster API's controllers may. These are rights for upgrades in
// place, for which the provider brings images, for the keeper of an etcd behind an endpoint, and for what objects refer to.
func localRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "quorate-local-provider"},
		Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{upgradeGroup}, Verbs: []string{"get", "list", "watch"},
				Resources: []string{"nodeupgrades", "controlplaneupgrades", "machinedeploymentupgrades"},
			},
			{APIGroups: []string{upgradeGroup}, Resources: []string{"nodeupgrades/status"}, Verbs: []string{"patch"}},
			{
				APIGroups: []string{"etcdcluster.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}, Verbs: []string{"get", "list", "watch"},
				Resources: []string{"etcdclusters", "controlplanes", "kubeadmcontrolplanes"},
			},
		},
	}
}

// bindRoles gives Quorate's own controllers the role that they have everywhere. The controllers' user gets those of all
// else that runs in the one daemon, and the garbage collector those that it would else take from service accounts.
func (m *manifests) bindRoles() {
	roles := map[string]string{
		"system:controller:generic-garbage-collector": collectorUser,
		"system:controller:namespace-controller":      collectorUser,
	}
	for _, role := range m.rbac {
		roles[role.GetName()] = controllersUser
	}
	if _, ok := roles[managerRole]; ok {
		roles[managerRole] = managerUser
	}
	for role, user := range roles {
		m.rbac = append(m.rbac, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "quorate:" + strings.TrimPrefix(role, "system:")},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	}
}

// fingerprint changes when anything of the manifests does.
func (m *manifests) fingerprint() (string, error) {
	sum := sha256.New()
	encoder := json.NewEncoder(sum)
	byName := map[string]client.Object{}
	for _, o := range m.objects() {
		byName[fmt.Sprintf("%T %s", o, o.GetName())] = o
	}
	// Maps are written in the order of their keys.
	if err := encoder.Encode(byName); err != nil {
		return "", fmt.Errorf("encoding the manifests: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func (m *manifests) objects() []client.Object {
	out := append(append([]client.Object{}, m.rbac...), m.hooks...)
	for _, c := range m.crds {
		out = append(out, c)
	}
	return out
}
