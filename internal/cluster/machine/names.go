package machine

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation"
)

// longestName is the most characters a machine's name may have: it becomes the
// value of labels and the name of a Node.
const longestName = validation.DNS1123LabelMaxLength

// digits is how many digits of a machine's number are reckoned with when a name is cut.
const digits = 5

// number stands in a format for a machine's number.
const number = "%s"

// Variables of naming templates that stand for the control plane, one for each kind.
const (
	KubeadmControlPlaneVariable = "kubeadmControlPlane"
	ControlPlaneVariable        = "controlPlane"
	EtcdClusterVariable         = "etcdCluster"
)

// NameFormat returns the format of the names of a KubeadmControlPlane's machines; see NameFormatOf.
func NameFormat(text, controlPlane, cluster string) (string, error) {
	return NameFormatOf(KubeadmControlPlaneVariable, text, controlPlane, cluster)
}

// NameFormatOf returns the format of the names of a control plane's machines, with one %s for the
// number. It is the user's naming template (spec.machineNaming.template) where there is one, else the
// control plane's name and the number. In the template variable.name is the control plane's name.
func NameFormatOf(variable, text, controlPlane, cluster string) (string, error) {
	if text == "" {
		return cutName(controlPlane + "-" + number), nil
	}
	parsed, err := template.New("machineNaming").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("spec.machineNaming.template is %q, which is not a template: %w", text, err)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{
		"cluster": map[string]any{"name": cluster},
		variable:  map[string]any{"name": controlPlane},
		"random":  number,
	})
	if err != nil {
		return "", fmt.Errorf("spec.machineNaming.template is %q; it may use .cluster.name, .%s.name and .random: %w", text, variable, err)
	}
	format := out.String()
	if n := strings.Count(format, number); n == 0 || n != strings.Count(format, "%") {
		return "", fmt.Errorf("spec.machineNaming.template is %q; it must contain {{ .random }}, which becomes the machine's number, and no "+
			"percent sign", text)
	}
	format = cutName(numberedOnce(format))
	if wrong := validation.IsDNS1123Subdomain(fmt.Sprintf(format, "1")); len(wrong) > 0 {
		return "", fmt.Errorf("spec.machineNaming.template is %q, which makes the name %q: %s", text, fmt.Sprintf(format, "1"),
			strings.Join(wrong, ", "))
	}
	return format, nil
}

// numberedOnce leaves the last number of a format that has several: a number in a name is read again, and must be found.
// In the place of the others stands a hash of the format, as random as one name can be that is known before it is used.
func numberedOnce(format string) string {
	several := strings.Count(format, number) - 1
	return strings.Replace(format, number, hash(format)[:digits], several)
}

// cutName shortens a format whose names could become too long. The number stays,
// and a hash of the whole keeps names of different control planes apart.
func cutName(format string) string {
	if len(format)-len(number)+digits <= longestName {
		return format
	}
	whole := strings.Replace(format, number, "", 1)
	tail := "-" + hash(whole) + "-" + number
	keep := longestName - digits - (len(tail) - len(number))
	return strings.TrimRight(whole[:keep], "-.") + tail
}

// hash returns eight characters that tell a text from others.
func hash(text string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	return fmt.Sprintf("%08x", sum.Sum32())
}
