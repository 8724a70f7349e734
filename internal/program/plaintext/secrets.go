package plaintext

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// rule replaces what a pattern finds. may says, for far less than the pattern costs, that there is nothing in a text; it is given the
// text in lower case too.
type rule struct {
	pattern     *regexp.Regexp
	replacement string
	may         func(text, lower string) bool
}

// anyOf is for patterns that need one of some words.
func anyOf(words ...string) func(string, string) bool {
	return func(_, lower string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(lower, w) })
	}
}

// lowerAlphanumeric reports whether a text has only what tokens consist of.
func lowerAlphanumeric(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// hasToken reports whether there may be a bootstrap token: six characters, a dot, sixteen.
func hasToken(text, _ string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] == '.' && i >= 6 && len(text) >= i+17 && lowerAlphanumeric(text[i-6:i]) && lowerAlphanumeric(text[i+1:i+17]) {
			return true
		}
	}
	return false
}

// hasLongWord reports whether a line may be nothing but a key.
func hasLongWord(text, _ string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) >= 60 && !strings.ContainsAny(line, " \t") {
			return true
		}
	}
	return false
}

// rules find secrets by their form, or by the name before them. Their order matters: whole blocks first.
var rules = []rule{
	// A block whose end is missing goes on to the end of the text, and one whose beginning was cut off begins with the first
	// line that may be part of it.
	{regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|\z)`), "<PEM block>", anyOf("-----begin ")},
	{regexp.MustCompile(`(?:[A-Za-z0-9+/=]+(?:\s|\\n)+)*-----END [A-Z0-9 ]+-----`), "<PEM block>", anyOf("-----end ")},
	// kubeconfigs, kubeadm's configuration, secrets: name and value, as YAML or JSON.
	{regexp.MustCompile(`(?i)((?:["'\\]*)\b(?:token|tls-?bootstrap-?token|password|passwd|client-key-data|client-certificate-data|` +
		`certificateKey|id-token|refresh-token|access-token|secret-access-key|client-secret)(?:["'\\]*)\s*[:=]\s*)` +
		`(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\"[^"\\]*\\"|[^\s"',}\\]+)`), "${1}<secret>",
		anyOf("token", "passw", "key", "secret", "client-certificate-data")},
	{regexp.MustCompile(`(?i)(\b(?:certificate-key|certificateKey|certificate key)(?:["']*)(?::|=|\s)\s*["']?)[0-9a-f]{8,}`), "${1}<secret>",
		anyOf("certificate-key", "certificatekey", "certificate key")},
	// Flags of programs, with the value beside them.
	{regexp.MustCompile(
		`(?i)(--(?:token|discovery-token|tls-bootstrap-token|certificate-key|password|client-key-data)(?:=|\s+))(?:"[^"]*"|'[^']*'|[^\s"']+)`),
		"${1}<secret>", anyOf("--token", "--discovery-token", "--tls-bootstrap-token", "--certificate-key", "--password", "--client-key-data")},
	{regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`), "${1}<secret>", anyOf("bearer", "basic")},
	{regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://)[^\s/@:"']+:[^\s/@"']+@`), "${1}<secret>@", anyOf("://")},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*`), "<token>", anyOf("eyj")},
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), "<token>", hasToken}, // a bootstrap token: who has it may join
	// Lines that are nothing but a key: kubeadm prints that of the certificates so, files in base64 have more of them.
	{regexp.MustCompile(`(?m)^[ \t]*[0-9a-f]{64}[ \t]*$`), "<secret>", hasLongWord},
	{regexp.MustCompile(`(?m)^[ \t]*[A-Za-z0-9+/]{60,}={0,2}[ \t]*$`), "<base64>", hasLongWord},
}

// Redact is text with secrets replaced: tokens, keys, PEM blocks, passwords, certificate keys, and the credentials in
// kubeconfigs. What has the form of none of these cannot be told from other text, and stays.
func Redact(text string) string {
	lower := strings.ToLower(text)
	for _, r := range rules {
		if !r.may(text, lower) {
			continue
		}
		text = r.pattern.ReplaceAllString(text, r.replacement)
		lower = strings.ToLower(text)
	}
	return text
}

// Shown is text fit for a condition, a status or a screen: redacted, and without what a terminal would act on.
func Shown(text string) string { return Redact(Strip(text)) }

// Lines redacts a text that comes line by line, where a PEM block is spread over several.
type Lines struct{ block bool }

// A line of a PEM block, or of its header.
var blockLine = regexp.MustCompile(`^\s*(?:[A-Za-z0-9+/=]*|[A-Za-z-]+: .*)\s*$`)

// Redact returns a line without its secrets; empty for the lines of a block, of which the first is shown as what it is.
func (l *Lines) Redact(line []byte) []byte {
	begins, ends := bytes.Contains(line, []byte("-----BEGIN ")), bytes.Contains(line, []byte("-----END "))
	switch {
	case l.block && ends:
		l.block = false
		_, rest, _ := bytes.Cut(line, []byte("-----END "))
		if _, rest, _ = bytes.Cut(rest, []byte("-----")); len(bytes.TrimSpace(rest)) == 0 {
			return nil
		}
		return []byte(Redact(string(rest)))
	case l.block && blockLine.Match(line):
		return nil
	}
	// Whatever is no part of a block ends it: a line that begins one must not hide a whole log.
	l.block = begins && !ends
	redacted := Redact(string(line))
	if l.block && strings.HasSuffix(string(line), "\n") && !strings.HasSuffix(redacted, "\n") {
		redacted += "\n"
	}
	return []byte(redacted)
}
