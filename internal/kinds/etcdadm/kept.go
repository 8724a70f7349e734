package etcdadm

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/bootstrap/v1beta1"
	"github.com/quorate/quorate/internal/conversion"
)

// ValidateKept returns which fields of a configuration that only v1beta1 has cannot be carried out. Fields that change nothing here are
// accepted.
func ValidateKept(config *bootstrapv1alpha1.EtcdadmConfig) field.ErrorList {
	kept, err := conversion.KeptOf(config)
	if err != nil {
		at := field.NewPath("metadata", "annotations").Key(v1beta1.KeptAnnotation)
		return field.ErrorList{field.Forbidden(at, "it cannot be read; leave it out, as the conversion from v1beta1 writes it: "+err.Error())}
	}
	return RefuseKept(kept, field.NewPath("spec"))
}

// ValidateKeptUpdate is ValidateKept for a configuration in which these fields have changed.
func ValidateKeptUpdate(before, after *bootstrapv1alpha1.EtcdadmConfig) field.ErrorList {
	if before.Annotations[v1beta1.KeptAnnotation] == after.Annotations[v1beta1.KeptAnnotation] {
		return nil
	}
	return ValidateKept(after)
}

// RefuseKept is ValidateKept for the fields themselves.
func RefuseKept(kept conversion.Kept, at *field.Path) field.ErrorList {
	var all field.ErrorList
	refuse := func(is bool, name, why string) {
		if is {
			all = append(all, field.Forbidden(at.Child(name), why))
		}
	}
	const noBottlerocket = "Quorate makes etcd machines with cloud-init and systemd, and Bottlerocket has no shell that could run etcdadm: " +
		"use an image of another operating system and the format cloud-config"
	refuse(kept.Format == v1beta1.Bottlerocket, "format", noBottlerocket)
	refuse(kept.BottlerocketConfig != nil, "bottlerocketConfig", noBottlerocket)
	refuse(kept.RegistryMirror != nil, "registryMirror",
		"Quorate's etcd machines pull no images: leave it out, and set cloudInitConfig.etcdReleaseURL for a mirror of etcd's archives")
	refuse(kept.CipherSuites != "", "cipherSuites",
		"Quorate's etcdadm has no such flag: leave it out, or write a drop-in of etcd.service that sets ETCD_CIPHER_SUITES with files")
	refuse(len(kept.CertBundles) > 0, "certBundles",
		"Quorate does not install certificates: write them with files, and run update-ca-certificates in preEtcdadmCommands")
	return all
}
