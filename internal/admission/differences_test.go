package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
)

// difference is a case in which Quorate answers otherwise than Cluster API's webhook on purpose. Its name is that of its row in
// docs/compatibility.md, which has the reason.
type difference[T any] struct {
	name    string
	refuses bool // whether Quorate refuses, and Cluster API accepts
	applies func(before, after *T) bool
}

func titles[T any](list []difference[T]) []string {
	var all []string
	for _, d := range list {
		all = append(all, d.name)
	}
	return all
}

// reasonsFor returns the names of the differences that a write shows. before is nil for a new object.
func reasonsFor[T any](list []difference[T], before, after *T, refused bool) []string {
	var all []string
	for _, d := range list {
		if d.refuses == refused && d.applies(before, after) {
			all = append(all, d.name)
		}
	}
	return all
}

type (
	kcp      = controlplanev1.KubeadmControlPlane
	classKCP = controlplanev1.KubeadmControlPlaneTemplate
)

var controlPlaneDifferences = []difference[kcp]{
	{"more than 7 machines with stacked etcd", true, func(before, after *kcp) bool {
		n := ptr.Deref(after.Spec.Replicas, 0)
		return stacked(after) && n > 7 && (before == nil || n > ptr.Deref(before.Spec.Replicas, 0))
	}},
	{"a version with a number above 65535", true, func(before, after *kcp) bool {
		return changed(before, after, func(k *kcp) any { return k.Spec.Version }) && after.Spec.Version == "v1.36.99999"
	}},
	{"infrastructure templates of a kind that cannot be referenced", true, func(before, after *kcp) bool {
		ref := after.Spec.MachineTemplate.Spec.InfrastructureRef
		return changed(before, after, func(k *kcp) any { return k.Spec.MachineTemplate.Spec.InfrastructureRef }) &&
			(ref.APIGroup != "infrastructure.cluster.x-k8s.io" || !strings.HasSuffix(ref.Kind, "Template"))
	}},
	{"an address that every machine would advertise", true, func(before, after *kcp) bool {
		return stacked(after) && changed(before, after, func(k *kcp) any { return kubeadm.JoinAddress(&k.Spec.KubeadmConfigSpec) }) &&
			kubeadm.SharedAddress(&after.Spec.KubeadmConfigSpec) != ""
	}},
	{"machine names without a number", true, func(before, after *kcp) bool {
		return changed(before, after, func(k *kcp) any { return k.Spec.MachineNaming.Template }) &&
			strings.Contains(after.Spec.MachineNaming.Template, "{{ if false }}")
	}},
	{"the annotation in-place-upgrade-needed, set by hand", true, func(before, after *kcp) bool {
		return before != nil && before.Annotations[upgradev1.NeededAnnotation] == "" && after.Annotations[upgradev1.NeededAnnotation] != ""
	}},
	{"windows that cannot be read", true, func(before, after *kcp) bool {
		return changed(before, after, func(k *kcp) any { return fmt.Sprint(k.Spec.Approval.Windows) }) && unreadable(after.Spec.Approval)
	}},
	{"backups that could not be taken", true, func(before, after *kcp) bool {
		return after.Spec.Backup != nil && (before == nil || !equality.Semantic.DeepEqual(before.Spec.Backup, after.Spec.Backup))
	}},
	{"managedExternalEtcdRef of a kind that cannot be referenced", true, func(before, after *kcp) bool {
		return changed(before, after, managedEtcd) && unfitEtcd(after.Spec.ManagedExternalEtcdRef)
	}},
	{"another managedExternalEtcdRef", true, func(before, after *kcp) bool {
		return before != nil && changed(before, after, managedEtcd)
	}},
	{"an even number of machines beside managedExternalEtcdRef", false, func(_, after *kcp) bool {
		return after.Spec.ManagedExternalEtcdRef.IsDefined() && ptr.Deref(after.Spec.Replicas, 0) > 0
	}},
	{"a number of machines that was stored before", false, func(before, after *kcp) bool {
		n := ptr.Deref(after.Spec.Replicas, 0)
		return before != nil && ptr.Equal(before.Spec.Replicas, after.Spec.Replicas) && (n < 1 || n%2 == 0 && stacked(after))
	}},
}

var templateDifferences = []difference[classKCP]{
	{"an address that every machine would advertise", true, func(before, after *classKCP) bool {
		s := &after.Spec.Template.Spec
		return before == nil && !s.ManagedExternalEtcdRef.IsDefined() && !s.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined() &&
			kubeadm.SharedAddress(&s.KubeadmConfigSpec) != ""
	}},
	{"machine names without a number", true, func(before, after *classKCP) bool {
		return before == nil && strings.Contains(after.Spec.Template.Spec.MachineNaming.Template, "{{ if false }}")
	}},
	{"managedExternalEtcdRef of a kind that cannot be referenced", true, func(before, after *classKCP) bool {
		return before == nil && unfitEtcd(after.Spec.Template.Spec.ManagedExternalEtcdRef)
	}},
	{"windows that cannot be read", true, func(before, after *classKCP) bool {
		return before == nil && unreadable(after.Spec.Template.Spec.Approval)
	}},
	{"backups that could not be taken", true, func(before, after *classKCP) bool {
		return before == nil && after.Spec.Template.Spec.Backup != nil
	}},
	{"changes of Quorate's own fields of a template", true, func(before, after *classKCP) bool {
		return before != nil && !equality.Semantic.DeepEqual(before.Spec.Template.Spec.Additions, after.Spec.Template.Spec.Additions)
	}},
}

// unreadable reports whether an approval has a window without a valid day, start, length or time zone.
func unreadable(a controlplanev1.ApprovalSpec) bool {
	for _, w := range a.Windows {
		_, err := time.Parse("15:04", w.Start)
		_, zone := time.LoadLocation(w.TimeZone)
		days := slices.ContainsFunc(w.Days, func(d controlplanev1.Weekday) bool { return !strings.HasSuffix(string(d), "day") })
		if err != nil || zone != nil || days || w.Length.Duration < 10*time.Minute {
			return true
		}
	}
	return false
}

// changed reports whether a write sets a field to what was not stored.
func changed(before, after *kcp, of func(*kcp) any) bool {
	return before == nil || of(before) != of(after)
}

func managedEtcd(k *kcp) any { return k.Spec.ManagedExternalEtcdRef }

func unfitEtcd(ref controlplanev1.ManagedEtcdReference) bool {
	return ref.IsDefined() && (ref.APIGroup == "" || ref.APIGroup == "apps")
}

func stacked(k *kcp) bool {
	return !k.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined() && !k.Spec.ManagedExternalEtcdRef.IsDefined()
}

// bases are control planes that fields are changed of.
func bases(t *testing.T) map[string]*kcp {
	t.Helper()
	plain := sized(t, 3, false)
	external := sized(t, 3, true)
	managed := sized(t, 3, false)
	managed.Spec.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster",
		Name: "a"}
	one := sized(t, 1, false)
	one.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/a", Content: "x"}, {Path: "/b", Content: "y"}}
	one.Spec.KubeadmConfigSpec.Users = []bootstrapv1.User{{Name: "u", Passwd: "p"}}
	one.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = "v1.9.3"
	one.Spec.KubeadmConfigSpec.ClusterConfiguration.CertificateValidityPeriodDays = 100
	one.Spec.KubeadmConfigSpec.Format = bootstrapv1.Ignition
	return map[string]*kcp{"stacked": plain, "external": external, "managed": managed, "one": one}
}
