package stacked

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// longestName is the most characters a machine's name may have: it becomes the
// value of labels and the name of a Node.
const longestName = validation.DNS1123LabelMaxLength

// digits is how many digits of a machine's number are reckoned with when a name is cut.
const digits = 5

// nameFormat returns the format of the machines' names, with one %s for the
// number: the user's naming template where there is one, else the control
// plane's name and the number.
func nameFormat(kcp *controlplanev1.KubeadmControlPlane, cluster string) (string, error) {
	text := kcp.Spec.MachineNaming.Template
	if text == "" {
		return cutName(kcp.Name + "-%s"), nil
	}
	parsed, err := template.New("machineNaming").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("spec.machineNaming.template is %q, which is not a template: %w", text, err)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{
		"cluster":             map[string]any{"name": cluster},
		"kubeadmControlPlane": map[string]any{"name": kcp.Name},
		"random":              "%s",
	})
	if err != nil {
		return "", fmt.Errorf("spec.machineNaming.template is %q; it may use .cluster.name, .kubeadmControlPlane.name and .random: %w", text, err)
	}
	format := out.String()
	if strings.Count(format, "%") != 1 || strings.Count(format, "%s") != 1 {
		return "", fmt.Errorf("spec.machineNaming.template is %q; it must contain {{ .random }} exactly once, which becomes the machine's number", text)
	}
	format = cutName(format)
	if wrong := validation.IsDNS1123Subdomain(fmt.Sprintf(format, "1")); len(wrong) > 0 {
		return "", fmt.Errorf("spec.machineNaming.template is %q, which makes the name %q: %s", text, fmt.Sprintf(format, "1"), strings.Join(wrong, ", "))
	}
	return format, nil
}

// cutName shortens a format whose names could become too long. The number stays,
// and a hash of the whole keeps names of different control planes apart.
func cutName(format string) string {
	if len(format)-len("%s")+digits <= longestName {
		return format
	}
	whole := strings.Replace(format, "%s", "", 1)
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(whole))
	tail := fmt.Sprintf("-%08x-%%s", sum.Sum32())
	keep := longestName - digits - (len(tail) - len("%s"))
	return strings.TrimRight(whole[:keep], "-.") + tail
}
