package cloudinit

import (
	"fmt"
	"slices"
	"strings"
)

const jinjaHeader = "## template: jinja"

// render fills in the few variables that bootstrap data uses. Anything else that a template engine would act on is
// an error: cloud-init would put a marker for a missing variable into the file, and the user would not see it.
func render(text string, meta Meta) (string, error) {
	variables := map[string]string{}
	for _, prefix := range []string{"ds.meta_data.", "v1.", "v1_", ""} {
		variables[prefix+"local_hostname"] = meta.Name
		variables[prefix+"instance_id"] = meta.InstanceID
	}
	variables["ds.meta_data.hostname"] = meta.Name
	for name, address := range map[string]string{"local_ipv4": meta.Address, "local_ipv6": meta.Address6} {
		if address != "" {
			variables["ds.meta_data."+name] = address
		}
	}
	var out strings.Builder
	line := 1
	for {
		start := strings.Index(text, "{")
		if start < 0 || start+1 == len(text) {
			out.WriteString(text)
			return out.String(), nil
		}
		out.WriteString(text[:start])
		line += strings.Count(text[:start], "\n")
		text = text[start:]
		replacement, rest, err := renderOne(text, variables, line)
		if err != nil {
			return "", err
		}
		out.WriteString(replacement)
		line += strings.Count(text[:len(text)-len(rest)], "\n")
		text = rest
	}
}

// renderOne handles what begins with a brace: it returns what it stands for, and what follows it.
func renderOne(text string, variables map[string]string, line int) (string, string, error) {
	switch text[1] {
	case '{':
		body, rest, ok := strings.Cut(text[2:], "}}")
		if !ok {
			return "", "", &SyntaxError{Line: line, Reason: "the template's {{ has no }}"}
		}
		name := strings.TrimSpace(strings.Trim(body, "-+"))
		value, ok := variables[name]
		if !ok {
			return "", "", &UnsupportedError{
				Directive: "{{ " + name + " }}", Line: line,
				Why: "templates may use " + strings.Join(variableNames(variables), ", "),
			}
		}
		return value, rest, nil
	case '#':
		_, rest, ok := strings.Cut(text[2:], "#}")
		if !ok {
			return "", "", &SyntaxError{Line: line, Reason: "the template's {# has no #}"}
		}
		return "", rest, nil
	case '%':
		return renderRaw(text, line)
	}
	return text[:1], text[1:], nil
}

// renderRaw handles the one statement that is known: text that the template leaves alone.
func renderRaw(text string, line int) (string, string, error) {
	body, rest, ok := strings.Cut(text[2:], "%}")
	if !ok {
		return "", "", &SyntaxError{Line: line, Reason: "the template's {% has no %}"}
	}
	if name := strings.TrimSpace(body); name != "raw" {
		return "", "", &UnsupportedError{
			Directive: fmt.Sprintf("{%% %s %%}", name), Line: line,
			Why: "of the template's statements only raw and endraw are known",
		}
	}
	for _, end := range []string{"{% endraw %}", "{%endraw%}"} {
		if raw, after, ok := strings.Cut(rest, end); ok {
			return raw, after, nil
		}
	}
	return "", "", &SyntaxError{Line: line, Reason: "the template's {% raw %} has no {% endraw %}"}
}

func variableNames(variables map[string]string) []string {
	var names []string
	for name := range variables {
		if strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
