package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// pages are all Markdown files below docs, from the repository's root.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			file, _ := filepath.Rel(root, path)
			all = append(all, file)
		}
		return err
	})
	if err != nil || len(all) < 40 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	return all
}

// text is a file of the repository.
func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// navigated are the pages that the navigation of mkdocs.yml names, in their order.
func navigated(t *testing.T) []string {
	t.Helper()
	var site struct {
		Nav []any `json:"nav"`
	}
	if err := yaml.Unmarshal([]byte(text(t, "mkdocs.yml")), &site); err != nil {
		t.Fatal(err)
	}
	var all []string
	var visit func(any)
	visit = func(node any) {
		switch n := node.(type) {
		case string:
			if !strings.Contains(n, "://") {
				all = append(all, "docs/"+n)
			}
		case []any:
			for _, one := range n {
				visit(one)
			}
		case map[string]any:
			for _, one := range n {
				visit(one)
			}
		}
	}
	visit(site.Nav)
	return all
}

// TestPagesAreInTheNavigation: each page is there once, and no other.
func TestPagesAreInTheNavigation(t *testing.T) {
	named, all := navigated(t), pages(t)
	for _, page := range all {
		if !slices.Contains(named, page) {
			t.Errorf("mkdocs.yml does not name %s", page)
		}
	}
	for i, page := range named {
		if !slices.Contains(all, page) {
			t.Errorf("mkdocs.yml names %s, which does not exist", page)
		}
		if slices.Contains(named[:i], page) {
			t.Errorf("mkdocs.yml names %s twice", page)
		}
	}
}

// TestPagesBeginWithTheirUse: after its title each page begins with what the reader can do with it.
func TestPagesBeginWithTheirUse(t *testing.T) {
	for _, page := range pages(t) {
		body := regexp.MustCompile(`^(?:<!--.*-->\n+)?`).ReplaceAllString(text(t, page), "")
		if !regexp.MustCompile(`^# [^\n]+\n\nThis page lets you [^\n]+`).MatchString(body) {
			t.Errorf("%s must begin with its title and a paragraph \"This page lets you ...\"", page)
		}
	}
}

// TestFiguresHaveCommands: each row of docs/figures.md ends with how to measure it again.
func TestFiguresHaveCommands(t *testing.T) {
	rows := 0
	for i, line := range strings.Split(text(t, "docs/figures.md"), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what |") || strings.HasPrefix(line, "| --- |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 || !strings.Contains(cells[2], "`") && cells[2] != "the command itself" {
			t.Errorf("docs/figures.md:%d has no command: %s", i+1, line)
		}
	}
	if rows < 25 {
		t.Errorf("%d rows were found", rows)
	}
}

var (
	linkIs    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	codeIs    = regexp.MustCompile("`[^`]*`")
	headingIs = regexp.MustCompile(`^#{1,6} +(.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// prose returns the lines of a document with those of fenced blocks empty.
func prose(content string) []string {
	lines, fenced := strings.Split(content, "\n"), false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced {
			lines[i] = ""
		}
	}
	return lines
}

// anchors are those of a document's headings, as a forge makes them.
func anchors(content string) map[string]bool {
	found := map[string]bool{}
	for _, line := range prose(content) {
		if heading := headingIs.FindStringSubmatch(line); heading != nil {
			plain := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
			found[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(plain), ""), " ", "-")] = true
		}
	}
	return found
}

// broken returns the links of a document to files and headings that do not exist.
func broken(t *testing.T, file string) (found []string, links int) {
	t.Helper()
	for _, line := range prose(text(t, file)) {
		for _, link := range linkIs.FindAllStringSubmatch(codeIs.ReplaceAllString(line, ""), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil || strings.HasPrefix(to, "..") {
				found = append(found, link[1])
			} else if anchor != "" && strings.HasSuffix(to, ".md") && !anchors(text(t, to))[anchor] {
				found = append(found, link[1])
			}
		}
	}
	return found, links
}

// TestLinksResolve: each link of a document leads to a file, and to a heading in it.
func TestLinksResolve(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := pages(t)
	for _, file := range files {
		all = append(all, filepath.Base(file))
	}
	total := 0
	for _, file := range all {
		found, links := broken(t, file)
		total += links
		for _, link := range found {
			t.Errorf("%s: the link %s leads nowhere", file, link)
		}
	}
	if total < 200 {
		t.Errorf("only %d links were found", total)
	}
}

func TestAnchors(t *testing.T) {
	got := anchors("# A `b` & c: d\n\n```\n# not this\n```\n\n## With [a link](x.md), twice\n")
	if len(got) != 2 || !got["a-b--c-d"] || !got["with-a-link-twice"] {
		t.Errorf("%v", got)
	}
}
