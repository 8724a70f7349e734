// Command prose checks the language of what people read, with vale and the styles in hack/prose. It reads documents as they are, the
// comments, messages, errors and help of Go sources, and the messages of golden files. It knows where these stand, and
// prints each alert with the file and line of the source.
//
// Usage: go run ./hack/prose VALE PATH..., where a PATH is a document, a golden file of messages or a folder of Go sources.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: prose VALE PATH...")
		os.Exit(2)
	}
	alerts, read, err := check(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, a := range alerts {
		fmt.Println(a)
	}
	fmt.Printf("%d alerts in %s\n", len(alerts), read)
	if len(alerts) > 0 {
		os.Exit(1)
	}
}

// A place is a line of a source.
type place struct {
	file string
	line int
}

// A text is a paragraph that is read, in one line, and where it begins.
type text struct {
	place
	words string
}

// read counts what was checked.
type read struct {
	documents, sources, texts int
}

// String names the counts.
func (r read) String() string {
	return fmt.Sprintf("%d documents and %d texts of %d sources", r.documents, r.texts, r.sources)
}

// check returns the alerts of all paths.
func check(vale string, paths []string) ([]string, read, error) {
	var r read
	config, err := filepath.Abs(".vale.ini")
	if err != nil {
		return nil, r, err
	}
	folder, err := os.MkdirTemp("", "prose-")
	if err != nil {
		return nil, r, fmt.Errorf("making a folder for texts: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	var documents []string
	places := map[string][]place{}
	for _, path := range paths {
		if strings.HasSuffix(path, ".md") {
			documents = append(documents, path)
			continue
		}
		n, err := extract(path, folder, places)
		if err != nil {
			return nil, r, err
		}
		r.sources += n
	}
	r.documents = len(documents)
	for _, p := range places {
		r.texts += len(p)
	}
	found, err := run(vale, config, documents)
	if err != nil {
		return nil, r, err
	}
	if len(places) > 0 {
		more, err := run(vale, config, []string{folder})
		if err != nil {
			return nil, r, err
		}
		found = append(found, translate(more, places)...)
	}
	return lines(found), r, nil
}

// extract writes the texts of a golden file, or of the sources below a folder, for vale, one paragraph every second line, and returns of
// how many files.
func extract(path, folder string, places map[string][]place) (int, error) {
	n := 0
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case d.IsDir() || !isSource(at):
			return nil
		}
		content, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		of := map[string][]text{}
		if strings.HasSuffix(at, ".txt") {
			of["messages"] = golden(at, string(content))
		} else if of, err = source(at, content); err != nil {
			return err
		}
		n++
		for kind, texts := range of {
			if err := write(filepath.Join(folder, at+"."+kind+".md"), texts, places); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// isSource reports whether a file has texts that are read: tests and generated files have none.
func isSource(path string) bool {
	name := filepath.Base(path)
	return strings.HasSuffix(name, ".txt") ||
		strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "zz_generated")
}

// write writes texts into a file, and records where each came from.
func write(file string, texts []text, places map[string][]place) error {
	if len(texts) == 0 {
		return nil
	}
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(t.words + "\n\n")
		places[file] = append(places[file], t.place)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// An alert is one of vale's.
type alert struct {
	place
	Line                  int
	Check, Message, Match string
}

// run returns vale's alerts of files and folders.
func run(vale, config string, paths []string) ([]alert, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	command := exec.Command(vale, append([]string{"--config=" + config, "--output=JSON", "--no-exit"}, paths...)...)
	var errors bytes.Buffer
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w: %s", vale, err, errors.String())
	}
	var files map[string][]alert
	if err := json.Unmarshal(out, &files); err != nil {
		return nil, fmt.Errorf("reading the alerts of %s: %w: %.300s", vale, err, out)
	}
	var all []alert
	for file, alerts := range files {
		for _, a := range alerts {
			a.place = place{file, a.Line}
			all = append(all, a)
		}
	}
	return all, nil
}

// translate puts alerts of texts where these stand in their sources.
func translate(alerts []alert, places map[string][]place) []alert {
	for i, a := range alerts {
		if of := places[a.file]; len(of) > 0 {
			alerts[i].place = of[min(max(a.Line-1, 0)/2, len(of)-1)]
		}
	}
	return alerts
}

// lines are alerts as they are printed, in the order of their places.
func lines(alerts []alert) []string {
	slices.SortStableFunc(alerts, func(a, b alert) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.Message, b.Message))
	})
	var all []string
	for _, a := range alerts {
		all = append(all, fmt.Sprintf("%s:%d: %s (%s, in %.40q)", a.file, a.line, a.Message, a.Check, a.Match))
	}
	return slices.Compact(all)
}
