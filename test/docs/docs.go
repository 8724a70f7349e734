// Package docs reads the commands out of the documents, README.md and docs, so that tests hold them against what there is, and run them.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Command is one command line in a document.
type Command struct {
	// File is the document, from the repository's root.
	File string
	// Line is its number, from 1 on.
	Line int
	// Text is the command without comments.
	Text string
	// Inline: it stands in a sentence, where it may be named without its arguments.
	Inline bool
}

// String is the command with its place.
func (c Command) String() string { return fmt.Sprintf("%s:%d: %s", c.File, c.Line, c.Text) }

// Words are those of the command, without the variables of its environment before it.
func (c Command) Words() []string { return strings.Fields(variables.ReplaceAllString(c.Text, "")) }

// Program is the command's first word.
func (c Command) Program() string { return c.Words()[0] }

// Programs are those whose commands are read. Others in blocks are output, or pieces of files.
var Programs = []string{"quorate", "quorate-manager", "kubectl", "make", "clusterctl", "helm", "git", "go", "curl", "openssl", "etcdctl"}

var (
	program   = `(?:` + strings.Join(Programs, "|") + `)`
	variables = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )+`)
	block     = regexp.MustCompile(`^(?: {4,})?(?:\$ )?((?:[A-Z_]+=\S+ )*` + program + ` .*)$`)
	inline    = regexp.MustCompile("`(" + program + " [^`]+)`")
	comment   = regexp.MustCompile(`\s+#.*$`)
)

// Commands are those of all documents below a repository's root, but generated ones, in their order. A line with several is several
// commands.
func Commands(root string) ([]Command, error) {
	var all []Command
	read := func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the commands of a document: %w", err)
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return fmt.Errorf("reading the commands of a document: %w", err)
		}
		all = append(all, commandsIn(file, string(text))...)
		return nil
	}
	if err := read(filepath.Join(root, "README.md")); err != nil {
		return nil, err
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("looking for documents: %w", err)
		case d.IsDir() && d.Name() == "reference":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		return read(path)
	})
	return all, err
}

// commandsIn are the commands of one document.
func commandsIn(file, text string) []Command {
	var all []Command
	add := func(line int, text string, inline bool) {
		for _, one := range strings.Split(text, "; ") {
			if one = strings.TrimSpace(comment.ReplaceAllString(one, "")); one != "" {
				all = append(all, Command{File: file, Line: line, Text: one, Inline: inline})
			}
		}
	}
	fenced, language := false, ""
	for i, line := range strings.Split(text, "\n") {
		if after, fence := strings.CutPrefix(strings.TrimSpace(line), "```"); fence {
			fenced, language = !fenced, after
			continue
		}
		indented := strings.HasPrefix(line, "    ")
		if found := block.FindStringSubmatch(line); found != nil && (indented || fenced) && language != "yaml" {
			add(i+1, comment.ReplaceAllString(found[1], ""), false)
			continue
		}
		if fenced || indented {
			continue
		}
		for _, found := range inline.FindAllStringSubmatch(line, -1) {
			add(i+1, found[1], true)
		}
	}
	return all
}
