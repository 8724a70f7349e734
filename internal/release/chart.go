package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	chartName   = "quorate"
	chartFile   = "Chart.yaml"
	chartIgnore = ".helmignore"
	chartValues = "values.yaml"
)

// Chart writes the Helm chart as quorate-VERSION.tgz, where VERSION has no leading v, and removes archives of other versions. The chart has
// this version; its appVersion is the tag of the manager's image. Its values have the digests of the upgrader images that Images wrote.
func (r *Release) Chart() error {
	version := strings.TrimPrefix(r.Version, "v")
	r.Report("packing the chart %s %s", chartName, version)
	files, err := chartFiles(filepath.Join(r.Root, "charts", chartName))
	if err != nil {
		return fmt.Errorf("reading the chart: %w", err)
	}
	for key, value := range map[string]string{"version": version, "appVersion": r.Version} {
		if files[chartFile], err = setKey(files[chartFile], key, value); err != nil {
			return fmt.Errorf("setting the version of the chart in %s: %w", chartFile, err)
		}
	}
	if err := r.setUpgraders(files); err != nil {
		return fmt.Errorf("setting the upgrader images of the chart in %s: %w", chartValues, err)
	}
	packed, err := r.pack(chartName, files)
	if err != nil {
		return fmt.Errorf("packing the chart: %w", err)
	}
	older, err := filepath.Glob(filepath.Join(r.Out, chartName+"-*.tgz"))
	if err != nil {
		return fmt.Errorf("finding older archives of the chart: %w", err)
	}
	for _, file := range older {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("removing an older archive of the chart: %w", err)
		}
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return fmt.Errorf("making the folder of the release: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.Out, chartName+"-"+version+".tgz"), packed, 0o644); err != nil {
		return fmt.Errorf("writing the archive of the chart: %w", err)
	}
	return nil
}

// setUpgraders sets the value upgrader.images among the files of the chart.
func (r *Release) setUpgraders(files map[string][]byte) error {
	type image struct {
		Digest string `json:"digest"`
		Brings string `json:"brings,omitempty"`
	}
	images := map[string]image{}
	for _, p := range r.images {
		if p.Kubernetes != "" {
			images[p.Kubernetes] = image{p.Digest, p.Brings}
		}
	}
	if len(images) == 0 {
		r.Report("the chart has no upgrader images: none were made")
		return nil
	}
	value, err := yaml.Marshal(images)
	if err != nil {
		return err
	}
	const key, indent = "  images", "\n    "
	text := indent + strings.ReplaceAll(strings.TrimSpace(string(value)), "\n", indent)
	files[chartValues], err = setKey(files[chartValues], key, text)
	return err
}

// chartFiles returns the files of a chart by their paths in it, without those that .helmignore names. Links are followed, as Helm follows
// them.
func chartFiles(folder string) (map[string][]byte, error) {
	ignored, err := ignorePatterns(filepath.Join(folder, chartIgnore))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var walk func(inside string) error
	walk = func(inside string) error {
		entries, err := os.ReadDir(filepath.Join(folder, inside))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if slices.ContainsFunc(ignored, func(pattern string) bool { matches, _ := path.Match(pattern, e.Name()); return matches }) {
				continue
			}
			name := path.Join(inside, e.Name())
			info, err := os.Stat(filepath.Join(folder, name))
			if err != nil {
				return err
			}
			if info.IsDir() {
				err = walk(name)
			} else {
				files[name], err = os.ReadFile(filepath.Join(folder, name))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return files, walk(".")
}

// ignorePatterns returns the patterns of a .helmignore. Only patterns of names are known: others are errors, so that no file is packed by
// mistake.
func ignorePatterns(file string) ([]string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var patterns []string
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := path.Match(line, ""); err != nil || strings.ContainsAny(line, "/!") {
			return nil, fmt.Errorf("%s: invalid pattern %q: must have no slash and no exclamation mark", file, line)
		}
		patterns = append(patterns, line)
	}
	return patterns, nil
}

// setKey replaces the value of a key of a YAML document, with its indent. It must be there once, with its value in the same line.
func setKey(document []byte, key, value string) ([]byte, error) {
	line := regexp.MustCompile(`(?m)^` + key + `: .*$`)
	if n := len(line.FindAll(document, -1)); n != 1 {
		return nil, fmt.Errorf("the key %s is there %d times, not once", key, n)
	}
	return line.ReplaceAllLiteral(document, []byte(key+": "+value)), nil
}

// pack returns a compressed archive of files below one folder. It depends on nothing but their names, their content and the date of the
// release.
func (r *Release) pack(folder string, files map[string][]byte) ([]byte, error) {
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, name), Mode: 0o644, Size: int64(len(files[name])), ModTime: r.date,
			Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
