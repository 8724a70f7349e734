package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packedChart returns the archive of the chart that a release with some options writes, and its name.
func packedChart(t *testing.T, o Options) (string, []byte) {
	t.Helper()
	r := release(t, o)
	if err := r.Chart(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(r.Out, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v: want one archive", found, err)
	}
	raw, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(found[0]), raw
}

// TestChart: the archive has the chart in one folder, with the release's version, and nothing that depends on who packed it.
func TestChart(t *testing.T) {
	o := options(t)
	name, raw := packedChart(t, o)
	if name != "quorate-9.8.7.tgz" {
		t.Errorf("its name is %s", name)
	}
	if _, again := packedChart(t, options(t)); !bytes.Equal(raw, again) {
		t.Error("two archives differ")
	}
	content, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if h := content.Header; h.Name != "" || h.Comment != "" || len(h.Extra) > 0 || !h.ModTime.IsZero() {
		t.Errorf("the header of gzip is not empty: %+v", h)
	}
	var tarball bytes.Buffer
	if _, err := io.Copy(&tarball, content); err != nil {
		t.Fatal(err)
	}
	checkHeaders(t, release(t, o), tar.NewReader(bytes.NewReader(tarball.Bytes())))
	checkChartFiles(t, entries(t, &tarball))

	o.Version = "v9.8.8-rc.1"
	if name, _ := packedChart(t, o); name != "quorate-9.8.8-rc.1.tgz" {
		t.Errorf("the name of the next one, in the same folder, is %s", name)
	}
}

// checkHeaders checks names, order, owners and times of an archive.
func checkHeaders(t *testing.T, r *Release, archive *tar.Reader) {
	t.Helper()
	var names []string
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Typeflag != tar.TypeReg || h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" ||
			!h.ModTime.Equal(r.date) || !strings.HasPrefix(h.Name, "quorate/") {
			t.Errorf("%+v", h)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %v", names)
	}
}

// checkChartFiles checks what is in a chart: links are followed, and what .helmignore names is left out.
func checkChartFiles(t *testing.T, files map[string]string) {
	t.Helper()
	source, err := os.ReadFile("../../charts/quorate/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(source), "\n")
	for i, line := range want {
		switch key, _, _ := strings.Cut(line, ":"); key {
		case "version":
			want[i] = "version: 9.8.7"
		case "appVersion":
			want[i] = "appVersion: v9.8.7"
		}
	}
	if got := files["quorate/Chart.yaml"]; got != strings.Join(want, "\n") {
		t.Errorf("Chart.yaml is\n%s", got)
	}
	for _, name := range []string{
		"values.yaml", "values.schema.json", "templates/manager.yaml", "templates/_helpers.tpl", "files/webhooks.yaml", "files/cluster_role.yaml",
		"files/rbac/role.yaml",
		"files/crd/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
	} {
		if files["quorate/"+name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	for name := range files {
		if strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "kustomization.yaml") || strings.Contains(name, "infrastructure.") {
			t.Errorf("there is %s", name)
		}
	}
}

// TestChartIsRefused: what is not understood of a chart is an error, not a wrong archive.
func TestChartIsRefused(t *testing.T) {
	for want, change := range map[string]map[string]string{
		"appVersion":  {"Chart.yaml": "name: quorate\nversion: 1.0.0\n"},
		"files/crd/x": {".helmignore": "files/crd/x\n"},
		"2 times":     {"Chart.yaml": "version: 1.0.0\nversion: 1.0.1\nappVersion: v1\n"},
	} {
		o := options(t)
		o.Root = t.TempDir()
		folder := filepath.Join(o.Root, "charts", "quorate")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"Chart.yaml": "version: 1.0.0\nappVersion: v1.0.0\n", ".helmignore": "# names\n*.go\n"}
		for name, text := range change {
			files[name] = text
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := release(t, o).Chart(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
