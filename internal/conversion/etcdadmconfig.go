package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apimachinery "k8s.io/apimachinery/pkg/conversion"
	"k8s.io/utils/ptr"
	kubeadmv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	kubeadmv1beta2 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/bootstrap/v1beta1"
)

// EtcdadmConfig converts EtcdadmConfigs between v1alpha1, which is stored, and the version of aws/etcdadm-bootstrap-provider.
var EtcdadmConfig = conversion.NewHubSpokeConverter(&v1alpha1.EtcdadmConfig{},
	conversion.NewSpokeConverter(&v1beta1.EtcdadmConfig{}, etcdadmConfigToOld, etcdadmConfigFromOld))

// installDir is the flag of etcdadm that v1beta1 has a field for.
const installDir = "install-dir"

// Kept are the fields of an EtcdadmConfig that only v1beta1 has.
type Kept struct {
	EtcdadmBuiltin     bool                                 `json:"etcdadmBuiltin,omitempty"`
	InstallCommands    []string                             `json:"etcdadmInstallCommands,omitempty"`
	Format             v1beta1.Format                       `json:"format,omitempty"`
	BottlerocketConfig *v1beta1.BottlerocketConfig          `json:"bottlerocketConfig,omitempty"`
	RegistryMirror     *v1beta1.RegistryMirrorConfiguration `json:"registryMirror,omitempty"`
	CipherSuites       string                               `json:"cipherSuites,omitempty"`
	CertBundles        []v1beta1.CertBundle                 `json:"certBundles,omitempty"`
}

// newer are the fields that only v1alpha1 has.
type newer struct {
	Args map[string]string `json:"etcdadmArgs,omitempty"`
	// Format is one that v1beta1 does not have.
	Format v1alpha1.Format `json:"format,omitempty"`
	// NotAppended are the paths of files for which append is written out as false.
	NotAppended        []string           `json:"notAppended,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	// DataSecretCreated and Ready are there if the status says false in so many words, or one of them only.
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
	Ready             *bool `json:"ready,omitempty"`
}

func etcdadmConfigToOld(_ context.Context, src *v1alpha1.EtcdadmConfig, dst *v1beta1.EtcdadmConfig) error {
	src = src.DeepCopy()
	kept, err := KeptOf(src)
	if err != nil {
		return err
	}
	dst.ObjectMeta = src.ObjectMeta
	delete(dst.Annotations, v1beta1.KeptAnnotation)
	if dst.Spec, err = SpecToOld(&src.Spec, kept); err != nil {
		return fmt.Errorf("converting EtcdadmConfig %s to v1beta1: %w", src.Name, err)
	}
	status := &src.Status
	dst.Status = v1beta1.EtcdadmConfigStatus{
		Conditions: conditionsToOld(status.Conditions), ObservedGeneration: status.ObservedGeneration,
		Ready: ptr.Deref(status.Initialization.DataSecretCreated, false),
	}
	if status.DataSecretName != "" {
		dst.Status.DataSecretName = &status.DataSecretName
	}
	rest := newer{Args: maps.Clone(src.Spec.EtcdadmArgs), Conditions: status.Conditions}
	delete(rest.Args, installDir)
	if format := src.Spec.Format; format != "" && format != v1alpha1.CloudConfig {
		rest.Format = format
	}
	for _, f := range src.Spec.Files {
		if f.Append != nil && !*f.Append {
			rest.NotAppended = append(rest.NotAppended, f.Path)
		}
	}
	if created := status.Initialization.DataSecretCreated; !ptr.Equal(created, status.Ready) || created != nil && !*created {
		rest.DataSecretCreated, rest.Ready = created, status.Ready
	}
	return annotate(&dst.ObjectMeta, v1beta1.NewerAnnotation, rest)
}

func etcdadmConfigFromOld(_ context.Context, src *v1beta1.EtcdadmConfig, dst *v1alpha1.EtcdadmConfig) error {
	src = src.DeepCopy()
	var rest newer
	if err := recallFields(src, v1beta1.NewerAnnotation, &rest); err != nil {
		return err
	}
	dst.ObjectMeta = src.ObjectMeta
	delete(dst.Annotations, v1beta1.NewerAnnotation)
	spec, kept, err := SpecFromOld(&src.Spec)
	if err != nil {
		return fmt.Errorf("converting EtcdadmConfig %s from v1beta1: %w", src.Name, err)
	}
	for name, value := range rest.Args {
		if name == installDir {
			continue // v1beta1 has the field, and what it says counts
		}
		if spec.EtcdadmArgs == nil {
			spec.EtcdadmArgs = map[string]string{}
		}
		spec.EtcdadmArgs[name] = value
	}
	if src.Spec.Format == "" {
		spec.Format = rest.Format
	}
	for i := range spec.Files {
		if f := &spec.Files[i]; f.Append == nil && slices.Contains(rest.NotAppended, f.Path) {
			f.Append = ptr.To(false)
		}
	}
	dst.Spec = spec
	dst.Status = v1alpha1.EtcdadmConfigStatus{
		Conditions: rest.Conditions, DataSecretName: ptr.Deref(src.Status.DataSecretName, ""), ObservedGeneration: src.Status.ObservedGeneration,
	}
	dst.Status.Initialization.DataSecretCreated, dst.Status.Ready = rest.DataSecretCreated, rest.Ready
	if src.Status.Ready != ptr.Deref(rest.DataSecretCreated, false) {
		dst.Status.Initialization.DataSecretCreated, dst.Status.Ready = nil, nil
	}
	if src.Status.Ready && dst.Status.Initialization.DataSecretCreated == nil {
		dst.Status.Initialization.DataSecretCreated, dst.Status.Ready = ptr.To(true), ptr.To(true)
	}
	return annotate(&dst.ObjectMeta, v1beta1.KeptAnnotation, kept)
}

// SpecFromOld returns a spec of v1beta1 in v1alpha1, and the fields that only v1beta1 has.
func SpecFromOld(old *v1beta1.EtcdadmConfigSpec) (v1alpha1.EtcdadmConfigSpec, Kept, error) {
	kept := Kept{
		EtcdadmBuiltin: old.EtcdadmBuiltin, BottlerocketConfig: old.BottlerocketConfig, RegistryMirror: old.RegistryMirror,
		CipherSuites: old.CipherSuites, CertBundles: old.CertBundles,
	}
	spec := v1alpha1.EtcdadmConfigSpec{PreEtcdadmCommands: old.PreEtcdadmCommands, PostEtcdadmCommands: old.PostEtcdadmCommands}
	if old.EtcdadmBuiltin {
		kept.InstallCommands = old.EtcdadmInstallCommands // they do not run
	} else {
		spec.EtcdadmInstallCommands = old.EtcdadmInstallCommands
	}
	switch old.Format {
	case "", v1beta1.CloudConfig:
		spec.Format = v1alpha1.Format(old.Format)
	default:
		kept.Format = old.Format
	}
	if c := old.CloudInitConfig; c != nil {
		spec.Version, spec.ReleaseURL = c.Version, c.EtcdReleaseURL
		if c.InstallDir != "" {
			spec.EtcdadmArgs = map[string]string{installDir: c.InstallDir}
		}
	}
	if p := old.Proxy; p != nil {
		spec.Proxy = v1alpha1.ProxySpec{HTTPProxy: p.HTTPProxy, HTTPSProxy: p.HTTPSProxy, NoProxy: p.NoProxy}
	}
	if n := old.NTP; n != nil {
		spec.NTP = kubeadmv1beta2.NTP{Servers: n.Servers, Enabled: n.Enabled}
	}
	var err error
	if spec.Files, err = convertAll(old.Files, kubeadmv1beta1.Convert_v1beta1_File_To_v1beta2_File); err != nil {
		return spec, kept, fmt.Errorf("files: %w", err)
	}
	for i := range spec.Files {
		if !old.Files[i].Append {
			spec.Files[i].Append = nil
		}
	}
	if spec.Users, err = convertAll(old.Users, kubeadmv1beta1.Convert_v1beta1_User_To_v1beta2_User); err != nil {
		return spec, kept, fmt.Errorf("users: %w", err)
	}
	return spec, kept, nil
}

// SpecToOld returns a spec of v1alpha1 in v1beta1. Flags of etcdadm other than install-dir have no field there.
func SpecToOld(spec *v1alpha1.EtcdadmConfigSpec, kept Kept) (v1beta1.EtcdadmConfigSpec, error) {
	old := v1beta1.EtcdadmConfigSpec{
		EtcdadmBuiltin: kept.EtcdadmBuiltin, Format: v1beta1.Format(spec.Format), BottlerocketConfig: kept.BottlerocketConfig,
		RegistryMirror: kept.RegistryMirror, CipherSuites: kept.CipherSuites, CertBundles: kept.CertBundles,
		PreEtcdadmCommands: spec.PreEtcdadmCommands, PostEtcdadmCommands: spec.PostEtcdadmCommands,
		EtcdadmInstallCommands: spec.EtcdadmInstallCommands,
	}
	if kept.EtcdadmBuiltin && len(spec.EtcdadmInstallCommands) == 0 {
		old.EtcdadmInstallCommands = kept.InstallCommands
	} else {
		old.EtcdadmBuiltin = false
	}
	if spec.Format == v1alpha1.Ignition {
		old.Format = "" // v1beta1 has no such format
	}
	if kept.Format != "" && spec.Format == "" {
		old.Format = kept.Format
	}
	c := v1beta1.CloudInitConfig{Version: spec.Version, EtcdReleaseURL: spec.ReleaseURL, InstallDir: spec.EtcdadmArgs[installDir]}
	if c != (v1beta1.CloudInitConfig{}) {
		old.CloudInitConfig = &c
	}
	if p := spec.Proxy; p.HTTPProxy != "" || p.HTTPSProxy != "" || p.NoProxy != nil {
		old.Proxy = &v1beta1.ProxyConfiguration{HTTPProxy: p.HTTPProxy, HTTPSProxy: p.HTTPSProxy, NoProxy: p.NoProxy}
	}
	if n := spec.NTP; n.Enabled != nil || n.Servers != nil {
		old.NTP = &kubeadmv1beta1.NTP{Servers: n.Servers, Enabled: n.Enabled}
	}
	var err error
	if old.Files, err = convertAll(spec.Files, kubeadmv1beta1.Convert_v1beta2_File_To_v1beta1_File); err != nil {
		return old, fmt.Errorf("files: %w", err)
	}
	if old.Users, err = convertAll(spec.Users, kubeadmv1beta1.Convert_v1beta2_User_To_v1beta1_User); err != nil {
		return old, fmt.Errorf("users: %w", err)
	}
	for i := range old.Users {
		leaveOut(&old.Users[i])
	}
	return old, nil
}

// leaveOut takes empty texts out of a user, which upstream's conversion leaves as pointers to nothing.
func leaveOut(u *kubeadmv1beta1.User) {
	for _, text := range []**string{&u.Gecos, &u.Groups, &u.HomeDir, &u.Shell, &u.Passwd, &u.PrimaryGroup, &u.Sudo} {
		if ptr.Deref(*text, "") == "" {
			*text = nil
		}
	}
}

// convertAll converts each item of a list with one of Cluster API's functions, which need no scope for these types.
func convertAll[From, To any](from []From, with func(*From, *To, apimachinery.Scope) error) ([]To, error) {
	if from == nil {
		return nil, nil
	}
	to := make([]To, len(from))
	for i := range from {
		if err := with(&from[i], &to[i], nil); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return to, nil
}

// conditionsToOld writes conditions in the form of v1beta1. A false one has the severity Info: v1alpha1 knows no other.
func conditionsToOld(all []metav1.Condition) clusterv1beta1.Conditions {
	var old clusterv1beta1.Conditions
	for _, c := range all {
		o := clusterv1beta1.Condition{
			Type: clusterv1beta1.ConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		}
		if c.Status == metav1.ConditionFalse {
			o.Severity = clusterv1beta1.ConditionSeverityInfo
		}
		if c.Reason == conditions.NoReasonReported {
			o.Reason = ""
		}
		old = append(old, o)
	}
	return old
}

// KeptOf returns the fields of an EtcdadmConfig that only v1beta1 has.
func KeptOf(config metav1.Object) (Kept, error) {
	var kept Kept
	err := recallFields(config, v1beta1.KeptAnnotation, &kept)
	return kept, err
}

// annotate keeps fields in an annotation, and takes it off where there are none.
func annotate(object *metav1.ObjectMeta, name string, fields any) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("keeping fields in the annotation %s: %w", name, err)
	}
	if string(text) != "{}" {
		metav1.SetMetaDataAnnotation(object, name, string(text))
	} else {
		delete(object.Annotations, name)
	}
	if len(object.Annotations) == 0 {
		object.Annotations = nil
	}
	return nil
}

// recallFields reads what annotate has kept.
func recallFields(object metav1.Object, name string, into any) error {
	text := object.GetAnnotations()[name]
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("reading the annotation %s of EtcdadmConfig %s: %w", name, object.GetName(), err)
	}
	return nil
}
