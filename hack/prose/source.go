package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// fewest is how many words a string literal has at least to be a text that somebody reads.
const fewest = 3

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	verb      = regexp.MustCompile(`%[-+#0-9.*\[\]]*[a-zA-Z]`)
	// unread begins a line of a comment that is code, or is written for a program.
	unread = regexp.MustCompile(`^//(go:|nolint|\t|   | ?\+)`)
	// script begins a string literal that only a program reads.
	script = regexp.MustCompile(`^\s*(#!|apiVersion:|\[Unit\]|set -|-----BEGIN|<|\{)`)
	// clauseEnd ends a part of a message.
	clauseEnd = regexp.MustCompile(`[;:] `)
	plain     = regexp.MustCompile(`^["'(]?[A-Za-z][a-z'-]*[.,:;)"'?]*$`)
	// step begins what a rule decides, before its message in parentheses.
	step = regexp.MustCompile(`^[A-Z][A-Za-z]*.*?\([A-Z][A-Za-z]*: (.*)\)$`)
)

// source returns the comments and the messages of a Go file.
func source(path string, content []byte) (map[string][]text, error) {
	if generated.Match(content) {
		return nil, nil
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	of := map[string][]text{}
	for _, group := range file.Comments {
		of["comments"] = append(of["comments"], comments(path, positions, group)...)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BinaryExpr, *ast.BasicLit:
			words, whole := literal(n.(ast.Expr))
			if !whole {
				return true
			}
			if isForDevelopers(path) {
				return false
			}
			at := place{path, positions.Position(n.Pos()).Line}
			of["messages"] = append(of["messages"], messages(at, words)...)
			return false
		}
		return true
	})
	return of, nil
}

// isForDevelopers reports whether the messages of a source are those of tests and worlds, which no user reads.
func isForDevelopers(path string) bool {
	return strings.HasPrefix(path, "test/") || strings.HasPrefix(path, "internal/core/sim/")
}

// comments are the paragraphs of a comment. Code in it, which is indented, and what is written for a program are left out.
func comments(path string, positions *token.FileSet, group *ast.CommentGroup) []text {
	var all []text
	open := false
	for _, c := range group.List {
		first := positions.Position(c.Pos()).Line
		for i, line := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/"), "\n") {
			said := strings.TrimSpace(strings.TrimPrefix(line, "//"))
			if said == "" || unread.MatchString(line) {
				open = false
				continue
			}
			if item := strings.HasPrefix(said, "- "); open && !item {
				all[len(all)-1].words += " " + said
				continue
			}
			all = append(all, text{place{path, first + i}, said})
			open = true
		}
	}
	return all
}

// literal returns the words of a string literal, or of several that are added, with ... for what is no literal. It reports whether the
// expression is one that gives a text.
func literal(of ast.Expr) (string, bool) {
	switch of := of.(type) {
	case *ast.ParenExpr:
		return literal(of.X)
	case *ast.BasicLit:
		if of.Kind != token.STRING {
			return "", false
		}
		words, err := strconv.Unquote(of.Value)
		return words, err == nil
	case *ast.BinaryExpr:
		if of.Op != token.ADD {
			return "", false
		}
		left, isLeft := literal(of.X)
		right, isRight := literal(of.Y)
		switch {
		case isLeft && isRight:
			return left + right, true
		case isLeft:
			return left + "X", true
		case isRight:
			return "X" + right, true
		}
	}
	return "", false
}

// messages are the paragraphs of a string literal that people read. In examples of commands that is what follows the sign #.
func messages(at place, words string) []text {
	if script.MatchString(words) {
		return nil
	}
	var all []text
	open := false
	for i, line := range strings.Split(words, "\n") {
		said := verb.ReplaceAllString(strings.TrimSpace(line), "X")
		if strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t") {
			open = false
			_, said, _ = strings.Cut(said, "# ")
		}
		switch {
		case said == "", strings.HasPrefix(said, "|"): // a table is read where the document is
			open = false
		case open:
			all[len(all)-1].words += " " + said
		default:
			all = append(all, text{place{at.file, at.line + i}, said})
			open = true
		}
	}
	var kept []text
	for _, t := range all {
		switch {
		case !isProse(t.words):
		case strings.Contains(words, "\n"):
			kept = append(kept, t)
		default:
			kept = append(kept, clauses(t)...)
		}
	}
	return kept
}

// clauses are the parts of a message of one line: a semicolon or a colon ends one, as a full stop ends a sentence.
func clauses(of text) []text {
	var all []text
	for _, part := range clauseEnd.Split(of.words, -1) {
		all = append(all, text{of.place, part})
	}
	return all
}

// isProse reports whether a text has enough plain words.
func isProse(words string) bool {
	n := 0
	for _, w := range strings.Fields(words) {
		if plain.MatchString(w) {
			n++
		}
	}
	return n >= fewest
}

// nameWidth is how wide the column of rules is in a golden file, with the space before and after it.
const nameWidth = 25

// golden returns the messages of a golden file: what each rule says of a state, one a line, after its name. One that stands there more
// than once is read once.
func golden(path, content string) []text {
	var all []text
	seen := map[string]bool{}
	for i, line := range strings.Split(content, "\n") {
		if !strings.HasPrefix(line, "    ") || len(line) <= nameWidth {
			continue
		}
		said := line[nameWidth:]
		if found := step.FindStringSubmatch(said); found != nil {
			said = found[1]
		}
		if !seen[said] {
			all = append(all, clauses(text{place{path, i + 1}, said})...)
		}
		seen[said] = true
	}
	return all
}
