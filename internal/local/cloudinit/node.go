package cloudinit

import (
	"encoding/base64"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// named is a value in the data, and the path that leads to it.
type named struct {
	name, path string
	value      *yaml.Node
}

func (n named) unsupported(why string) error {
	return &UnsupportedError{Directive: n.path, Line: n.value.Line, Why: why}
}

func (n named) wrong(format string, args ...any) error {
	return &SyntaxError{Line: n.value.Line, Reason: n.path + ": " + fmt.Sprintf(format, args...)}
}

// describeNode says what a value is, without showing it: values may be secret.
func describeNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a value of type " + strings.TrimPrefix(n.Tag, "!!")
}

// resolve follows aliases.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// each calls visit for the entries of a map, in their order; a key that occurs twice is an error.
func each(n *yaml.Node, path string, visit func(named) error) error {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		if path == "" {
			path = "the data"
		}
		return &SyntaxError{Line: n.Line, Reason: fmt.Sprintf("%s: is %s, must be a map", path, describeNode(n))}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		child := named{name: key.Value, path: join(path, key.Value), value: value}
		if key.Kind != yaml.ScalarNode {
			return &SyntaxError{Line: key.Line, Reason: fmt.Sprintf("%s: a key is %s, must be a name", path, describeNode(key))}
		}
		if seen[key.Value] {
			return child.wrong("occurs twice")
		}
		seen[key.Value] = true
		if err := visit(child); err != nil {
			return err
		}
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// items returns the entries of a list.
func (n named) items() ([]named, error) {
	if n.value.Kind != yaml.SequenceNode {
		return nil, n.wrong("is %s, must be a list", describeNode(n.value))
	}
	all := make([]named, len(n.value.Content))
	for i, v := range n.value.Content {
		path := fmt.Sprintf("%s[%d]", n.path, i)
		all[i] = named{name: path, path: path, value: resolve(v)}
	}
	return all, nil
}

// text returns a value as it is written; numbers and the like are taken as text.
func (n named) text() (string, error) {
	if n.value.Kind != yaml.ScalarNode {
		return "", n.wrong("is %s, must be text", describeNode(n.value))
	}
	switch n.value.Tag {
	case "!!null":
		return "", nil
	case "!!binary":
		// YAML's own form for bytes: base64, broken into lines.
		decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.value.Value), ""))
		if err != nil {
			return "", n.wrong("is tagged !!binary and must be base64")
		}
		return string(decoded), nil
	}
	return n.value.Value, nil
}

// flag returns a truth value in any of YAML's spellings.
func (n named) flag() (bool, error) {
	if n.value.Kind == yaml.ScalarNode {
		switch strings.ToLower(n.value.Value) {
		case "true", "yes", "on":
			return true, nil
		case "false", "no", "off":
			return false, nil
		}
	}
	return false, n.wrong("must be true or false")
}

// texts returns a list of texts, or a text whose parts are separated by commas.
func (n named) texts() ([]string, error) {
	if n.value.Kind == yaml.ScalarNode {
		text, err := n.text()
		var all []string
		for _, part := range strings.Split(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
		return all, err
	}
	return n.list()
}

// list returns a list of texts.
func (n named) list() ([]string, error) {
	items, err := n.items()
	if err != nil {
		return nil, err
	}
	all := make([]string, len(items))
	for i, item := range items {
		if all[i], err = item.text(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
