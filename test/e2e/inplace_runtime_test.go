//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/artifacts"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// olderRuntime is a version of containerd that is behind the pinned one. Local machines have their CNI plugins in pluginFolder, and do
// without unusedPlugin.
const (
	olderRuntime = "v2.4.1"
	pluginFolder = "/opt/cni/bin"
	unusedPlugin = "bridge"
)

// inplaceRuntime: the only machine of a control plane gets, beside another version of Kubernetes, another containerd and a CNI plugin that
// it lacks, from an image as releases have it. Containers that have no part in the upgrade go on.
//
//quorate:shows kubernetes in-place older>newer
func inplaceRuntime(t *testing.T, e *environment) {
	const name = "inruntime"
	e.up(t, name, "--replicas", "1", "--kubernetes-version", older)
	node := e.machines(t, name)[0]
	e.takeRuntime(t, name, node, olderRuntime)
	brings := e.publishedImage(t, node)
	e.useImage(t, brings)
	e.quorate(t, "shell", node, "--", "rm", pluginFolder+"/"+unusedPlugin)
	before := e.bystander(t, name, node)
	e.upgradedInPlace(t, name, 1)
	if after := e.containerOf(t, name); after != before {
		t.Errorf("a container that has no part in the upgrade was %s and is %q", before, after)
	}
	said := e.quorate(t, "shell", node, "--", "containerd", "--version")
	if steps.Newer(brings.Containerd, said) || e.runtimeOf(t, name) != "containerd://"+strings.TrimPrefix(brings.Containerd, "v") {
		t.Errorf("the node has %s, and says %s; its image brings %+v", said, e.runtimeOf(t, name), brings)
	}
	e.quorate(t, "shell", node, "--", "ls", pluginFolder+"/"+unusedPlugin)
	e.takeDown(t, name)
}

// takeRuntime has a node run a version of containerd that is built for this.
func (e *environment) takeRuntime(t *testing.T, name, node, version string) {
	t.Helper()
	built := buildRuntime(t, version)
	for _, program := range steps.RuntimePrograms {
		e.put(t, node, filepath.Join(built, program), strings.TrimSpace(e.quorate(t, "shell", node, "--", "bash", "-c", "command -v "+program)))
	}
	e.quorate(t, "shell", node, "--", "systemctl", "restart", "containerd")
	eventually(t, "the node runs containerd "+version, patience, func() string {
		if said := e.runtimeOf(t, name); said != "containerd://"+strings.TrimPrefix(version, "v") {
			return said
		}
		return ""
	})
	eventually(t, "the node is healthy", patience, e.healthy(t, name, 1))
}

// buildRuntime builds the programs of a version of containerd into a folder of the test.
func buildRuntime(t *testing.T, version string) string {
	t.Helper()
	const module = "github.com/containerd/containerd/v2"
	folder := t.TempDir()
	for _, file := range []string{"go.mod", "go.sum"} {
		data, err := artifacts.Pins.ReadFile("containerd/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := []string{"build", "-o", folder + "/", "-ldflags", "-X " + module + "/version.Version=" + version}
	for _, program := range steps.RuntimePrograms {
		build = append(build, module+"/cmd/"+program)
	}
	for _, args := range [][]string{{"get", module + "@" + version}, build} {
		c := exec.Command("go", args...)
		c.Dir, c.Env = folder, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return folder
}

// put replaces a program of a machine; the one that runs goes on with the file that it has.
func (e *environment) put(t *testing.T, node, from, to string) {
	t.Helper()
	file, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	e.feed(t, node, file, "bash", "-c", `cat > "$1.new" && chmod 755 "$1.new" && mv "$1.new" "$1"`, "put", to)
}

// feed runs a command in a machine that reads what it is given.
func (e *environment) feed(t *testing.T, node string, input io.Reader, command ...string) {
	t.Helper()
	c := exec.Command(e.binary, append([]string{"shell", node, "--"}, command...)...)
	c.Env, c.Stdin = append(os.Environ(), "QUORATE_STATE="+e.state), input
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s in %s: %v\n%s", command[0], node, err, out)
	}
}

// publishedImage builds the upgrader's image as a release has it, and brings it to a node. It returns what the image brings.
func (e *environment) publishedImage(t *testing.T, node string) steps.Brings {
	t.Helper()
	out := t.TempDir()
	make := exec.Command("make", "-C", "../..", "image", "OUT="+out, "UPGRADERS="+newer, "ARCHES="+runtime.GOARCH)
	told, err := make.CombinedOutput()
	if err != nil {
		t.Fatalf("building the upgrader's image: %v\n%s", err, told)
	}
	found := regexp.MustCompile(`it brings (\{.*?\}):`).FindSubmatch(told)
	if found == nil {
		t.Fatalf("it is not said what the image brings:\n%s", told)
	}
	brings, err := steps.ParseBrings(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	layout := exec.Command("tar", "-C", filepath.Join(out, "images", "upgrader-"+newer), "-c", ".")
	var failed bytes.Buffer
	layout.Stderr = &failed
	archive, err := layout.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := layout.Start(); err != nil {
		t.Fatal(err)
	}
	e.feed(t, node, archive, "ctr", "--namespace", "k8s.io", "images", "import", "--index-name", publishedUpgrader, "-")
	if err := layout.Wait(); err != nil {
		t.Fatalf("packing the image: %v\n%s", err, failed.String())
	}
	return brings
}

// publishedUpgrader is what the image is called on nodes.
var publishedUpgrader = "registry.test/upgrader:" + newer

// useImage has upgrades to the newer version use the published image.
func (e *environment) useImage(t *testing.T, brings steps.Brings) {
	t.Helper()
	told, err := json.Marshal(brings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := context.Background(), e.management(t)
	images := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: upgraders.ConfigMap},
		Data:       map[string]string{newer: publishedUpgrader, newer + ".brings": string(told)},
	}
	if err := c.Create(ctx, images); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(ctx, images); err != nil {
			t.Error(err)
		}
	})
}

// runtimeOf is the runtime, with its version, that the only node of a cluster says it has.
func (e *environment) runtimeOf(t *testing.T, name string) string {
	t.Helper()
	c, _ := e.workload(t, name)
	nodes, err := c.CoreV1().Nodes().List(context.Background(), listAll)
	if err != nil || len(nodes.Items) != 1 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	return nodes.Items[0].Status.NodeInfo.ContainerRuntimeVersion
}

// bystander makes a pod that has no part in an upgrade, and returns the ID of its container when that runs.
func (e *environment) bystander(t *testing.T, name, node string) (id string) {
	t.Helper()
	image := e.quorate(t, "shell", node, "--", "bash", "-c", "ctr --namespace k8s.io images list -q | grep -m 1 pause:")
	c, _ := e.workload(t, name)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: bystander}, Spec: corev1.PodSpec{
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "pause", Image: strings.TrimSpace(image), ImagePullPolicy: corev1.PullNever}},
	}}
	if _, err := c.CoreV1().Pods("default").Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod beside the upgrade runs", patience, func() string {
		if id = e.containerOf(t, name); id == "" {
			return "it does not"
		}
		return ""
	})
	return id
}

// bystander is the name of a pod.
const bystander = "bystander"

// containerOf is the ID of the bystander's container; empty: it does not run.
func (e *environment) containerOf(t *testing.T, name string) string {
	t.Helper()
	c, _ := e.workload(t, name)
	p, err := c.CoreV1().Pods("default").Get(context.Background(), bystander, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running != nil && s.RestartCount == 0 {
			return s.ContainerID
		}
	}
	return ""
}
