package steps

import (
	"strings"
	"testing"
)

// TestRuntimeSteps: the runtime and the CNI plugins have steps where the image brings what the node may not have, before the backup.
func TestRuntimeSteps(t *testing.T) {
	for name, test := range map[string]struct {
		runtime string
		brings  Brings
		want    string
	}{
		"nothing is brought":  {"containerd://2.4.1", Brings{}, "Copy Images Backup Swap Finish Verify"},
		"containerd is newer": {"containerd://2.4.1", Brings{Containerd: "v2.4.2"}, "Copy Containerd Images Backup Swap Finish Verify"},
		"it has it":           {"containerd://v2.4.2", Brings{Containerd: "v2.4.2"}, "Copy Images Backup Swap Finish Verify"},
		"of a distribution": {"containerd://2.4.2-0ubuntu1~24.04.1", Brings{Containerd: "v2.4.2"},
			"Copy Images Backup Swap Finish Verify"},
		"it has a newer one":       {"containerd://2.5.0", Brings{Containerd: "v2.4.2"}, "Copy Images Backup Swap Finish Verify"},
		"its version is not known": {"containerd://devel", Brings{Containerd: "v2.4.2"}, "Copy Containerd Images Backup Swap Finish Verify"},
		"nothing is said":          {"", Brings{Containerd: "v2.4.2"}, "Copy Images Backup Swap Finish Verify"},
		"runc": {"containerd://2.4.2", Brings{Containerd: "v2.4.2", Runc: "v1.3.3"},
			"Copy Containerd Images Backup Swap Finish Verify"},
		"plugins, nothing is said": {"", Brings{CNI: "v1.9.1"}, "Copy CNI Images Backup Swap Finish Verify"},
		"all": {"containerd://1.7.30", Brings{"v2.4.2", "v1.3.3", "v1.9.1"},
			"Copy Containerd CNI Images Backup Swap Finish Verify"},
	} {
		list, err := List(Node{KubeletVersion: "v1.35.4", Runtime: test.runtime}, Wanted{Node: "n1", Type: Worker, KubernetesVersion: "v1.36.3",
			Brings: test.brings})
		if got := names(list); got != test.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
	}
}

func TestParseBrings(t *testing.T) {
	for text, want := range map[string]Brings{
		"": {}, " \n": {}, "{}": {}, `{"containerd": "v2.4.2", "cni": "v1.9.1"}`: {Containerd: "v2.4.2", CNI: "v1.9.1"},
		`{"runc": "v1.3.3"}`: {Runc: "v1.3.3"},
	} {
		if got, err := ParseBrings(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"v2.4.2": "such as {", `{"crio": "v1.36.0"}`: "crio",
		`{"containerd": "latest"}`: `"latest" is not one`} {
		if got, err := ParseBrings(text); got != (Brings{}) || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestSaidVersion(t *testing.T) {
	for text, want := range map[string]string{
		"containerd github.com/containerd/containerd/v2 v2.4.2 ":                    "v2.4.2",
		"containerd containerd.io 1.7.28 b98a3aace656320842a23f4a392a33f46af97866":  "v1.7.28",
		"runc version 1.3.3-0ubuntu1\ncommit: v1.3.3-0-gd842d771\nspec: 1.2.1\n":    "v1.3.3",
		"CNI bridge plugin v1.9.1\nCNI protocol versions supported: 0.1.0, 1.0.0\n": "v1.9.1",
		"containerd://2.4.2+unknown":                                                "v2.4.2",
		"":                                                                          "",
		"containerd://devel":                                                        "",
	} {
		if got := SaidVersion(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if Newer("", "v1.0.0") || Newer("", "") || !Newer("v1.0.0", "") || !Newer("v2.10.0", "v2.9.1") || Newer("v2.9.1", "v2.9.1") {
		t.Error("what is newer is not told")
	}
}
