package drift

import (
	"bytes"
	"encoding/json"
	"strings"
)

// NotShown stands in a Difference for what may be secret.
const NotShown = "(not shown)"

// longest is how many characters of a value are shown, and lead how many of
// those that both values begin with.
const (
	longest = 100
	lead    = 20
)

// difference puts two values into words. What may be secret is redacted before.
func difference(field string, was, want any) Difference {
	a, b := shorten(text(was), text(want))
	return Difference{Field: field, Was: a, Want: b}
}

// redact returns a copy of a value without what may be secret. Switches and
// numbers are not, but for numbers in an object of a provider.
func redact(p path, v any) any {
	_, isBool := v.(bool)
	_, isNumber := v.(float64)
	switch {
	case v == nil, isBool, isNumber && !p.foreign:
		return v
	case p.hidden, p.foreign && secretText(v):
		return NotShown
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			out[name] = redact(p.member(name), value)
		}
		return out
	case []any:
		out := []any{}
		for _, element := range v {
			out = append(out, redact(p.element(""), element))
		}
		return out
	}
	return v
}

// bundle returns the elements of a list that stand under one name, redacted: a
// single one by itself.
func bundle(p path, list []any) any {
	switch len(list) {
	case 0:
		return nil
	case 1:
		return redact(p.element(""), list[0])
	}
	return redact(p, list)
}

// text writes a value for people: a string as it is, anything else as JSON, and
// nothing for what is not set.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if v != "" {
			return v
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // A value read from JSON can be written as JSON.
	return strings.TrimSpace(out.String())
}

// shorten cuts two texts to what can be read. Where they begin alike for long,
// the beginning goes first: what differs must be seen.
func shorten(was, want string) (a, b string) {
	x, y := []rune(was), []rune(want)
	if max(len(x), len(y)) <= longest {
		return was, want
	}
	alike := 0
	for alike < min(len(x), len(y)) && x[alike] == y[alike] {
		alike++
	}
	from := 0
	if alike > longest/2 {
		from = alike - lead
	}
	return window(x, from), window(y, from)
}

// window is the part of a text that is shown, with an ellipsis for each that is not.
func window(text []rune, from int) string {
	if len(text) == 0 {
		return ""
	}
	from = min(from, len(text))
	to := min(from+longest, len(text))
	out := string(text[from:to])
	if from > 0 {
		out = "…" + out
	}
	if to < len(text) {
		out += "…"
	}
	return out
}
