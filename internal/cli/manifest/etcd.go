package manifest

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

func etcdName(cluster string) string { return cluster + "-etcd" }

// etcdDocuments are the etcd cluster on machines of its own, where one is wanted.
func (c Cluster) etcdDocuments() []Document {
	if c.Etcd == 0 {
		return nil
	}
	return []Document{
		{"What machines of etcd are made from.", c.machineTemplate(etcdName(c.Name))},
		{"Etcd on machines of its own. Its size and version are changed here.", c.etcdCluster()},
	}
}

// etcdReference is how a control plane refers to the cluster's etcd.
func etcdReference(cluster string) controlplanev1.ManagedEtcdReference {
	return controlplanev1.ManagedEtcdReference{APIGroup: etcdclusterv1alpha1.GroupVersion.Group, Kind: "EtcdCluster", Name: etcdName(cluster)}
}

func (c Cluster) etcdCluster() *etcdclusterv1alpha1.EtcdCluster {
	e := &etcdclusterv1alpha1.EtcdCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: etcdclusterv1alpha1.GroupVersion.String(), Kind: "EtcdCluster"},
		ObjectMeta: c.meta(etcdName(c.Name)),
	}
	e.Spec.Replicas = ptr.To(c.Etcd)
	e.Spec.Version = c.EtcdVersion
	e.Spec.Backup = c.backup()
	e.Spec.InfrastructureTemplate = reference(infrav1.GroupVersion.Group, "LocalMachineTemplate", etcdName(c.Name))
	return e
}

// etcdVersion is the form of versions of etcd.
var etcdVersion = regexp.MustCompile(`^v?3\.\d+\.\d+$`)

// checkEtcd says what is wrong with what was asked for of etcd.
func (c Cluster) checkEtcd() error {
	if c.EtcdVersion != "" && !etcdVersion.MatchString(c.EtcdVersion) {
		return fmt.Errorf("invalid --etcd-version %q: must be a version such as 3.6.16", c.EtcdVersion)
	}
	if c.Etcd == 0 {
		return nil
	}
	return checkReplicas("", "--etcd", int64(c.Etcd))
}

// adoptEtcd takes over what a cluster has of etcd, or returns the changes of it.
func (c *Cluster) adoptEtcd(have inventory, given func(flag string) bool) ([]Step, error) {
	etcd, exists := have["EtcdCluster "+etcdName(c.Name)], have["Cluster "+c.Name] != nil
	switch {
	case !exists && c.Etcd == 0 && c.EtcdVersion != "":
		return nil, fmt.Errorf("--etcd-version %q cannot be combined with --etcd 0: it needs etcd on machines of its own, such as --etcd 3",
			c.EtcdVersion)
	case !exists:
		return nil, nil
	case etcd == nil && c.EtcdVersion != "":
		return nil, fmt.Errorf("--etcd-version is %q, and cluster %s has its etcd on the machines of the control plane, where it comes with "+
			"--kubernetes-version", c.EtcdVersion, c.Name)
	case etcd == nil && c.Etcd > 0:
		return nil, fmt.Errorf("--etcd is %d, and cluster %s has its etcd on the machines of the control plane: the data stay where they are; "+
			"make another cluster with --name", c.Etcd, c.Name)
	case etcd == nil:
		return nil, nil
	}
	var steps []Step
	replicas := readReplicas(etcd)
	if !given("etcd") {
		c.Etcd = replicas
	}
	if c.Etcd == 0 {
		return nil, fmt.Errorf("invalid --etcd \"0\": must be 1, 3, 5 or 7: cluster %s has etcd on machines of its own", c.Name)
	}
	if c.Etcd != replicas {
		steps = append(steps, Step{What: fmt.Sprintf("machines of etcd: %d -> %d", replicas, c.Etcd), Object: etcd,
			Patch: nested(writeReplicas(c.Etcd), replicasPath)})
	}
	return append(steps, c.adoptEtcdVersion(etcd, given("etcd-version"))...), nil
}

// adoptEtcdVersion takes over the version of etcd, unless one was given, or returns its change.
func (c *Cluster) adoptEtcdVersion(etcd *unstructured.Unstructured, given bool) []Step {
	version, _, _ := unstructured.NestedString(etcd.Object, "spec", "version")
	if !given {
		c.EtcdVersion = version
	}
	if version == c.EtcdVersion {
		return nil
	}
	return []Step{{What: fmt.Sprintf("version of etcd: %s -> %s", version, c.EtcdVersion), Object: etcd,
		Patch: nested(c.EtcdVersion, []string{"spec", "version"})}}
}
