package plaintext

import (
	"bytes"
	"regexp"
	"strings"
)

// rule replaces what a pattern finds.
type rule struct {
	pattern     *regexp.Regexp
	replacement string
}

// rules find secrets by their form, or by the name before them. Their order matters: whole blocks first.
var rules = []rule{
	// A block whose end is missing goes on to the end of the text, and one whose beginning was cut off begins with the first
	// line that may be part of it.
	{regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|\z)`), "<PEM block>"},
	{regexp.MustCompile(`(?:[A-Za-z0-9+/=]+(?:\s|\\n)+)*-----END [A-Z0-9 ]+-----`), "<PEM block>"},
	// kubeconfigs, kubeadm's configuration, secrets: name and value, as YAML or JSON.
	{regexp.MustCompile(`(?i)((?:["'\\]*)\b(?:token|tls-?bootstrap-?token|password|passwd|client-key-data|client-certificate-data|certificateKey|id-token|refresh-token|access-token|secret-access-key|client-secret)(?:["'\\]*)\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\"[^"\\]*\\"|[^\s"',}\\]+)`), "${1}<secret>"},
	{regexp.MustCompile(`(?i)(\b(?:certificate-key|certificateKey|certificate key)(?:["']*)(?::|=|\s)\s*["']?)[0-9a-f]{8,}`), "${1}<secret>"},
	// Flags of programs, with the value beside them.
	{regexp.MustCompile(`(?i)(--(?:token|discovery-token|tls-bootstrap-token|certificate-key|password|client-key-data)(?:=|\s+))(?:"[^"]*"|'[^']*'|[^\s"']+)`), "${1}<secret>"},
	{regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`), "${1}<secret>"},
	{regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://)[^\s/@:"']+:[^\s/@"']+@`), "${1}<secret>@"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*`), "<token>"},
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), "<token>"}, // a bootstrap token: who has it may join
	// Lines that are nothing but a key: kubeadm prints that of the certificates so, files in base64 have more of them.
	{regexp.MustCompile(`(?m)^[ \t]*[0-9a-f]{64}[ \t]*$`), "<secret>"},
	{regexp.MustCompile(`(?m)^[ \t]*[A-Za-z0-9+/]{60,}={0,2}[ \t]*$`), "<base64>"},
}

// Redact is text with secrets replaced: tokens, keys, PEM blocks, passwords, certificate keys, and the credentials in
// kubeconfigs. What has the form of none of these cannot be told from other text, and stays.
func Redact(text string) string {
	for _, r := range rules {
		text = r.pattern.ReplaceAllString(text, r.replacement)
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
	// Whatever is no part of a block ends it: nobody may hide a whole log behind a line that begins one.
	l.block = begins && !ends
	redacted := Redact(string(line))
	if l.block && strings.HasSuffix(string(line), "\n") && !strings.HasSuffix(redacted, "\n") {
		redacted += "\n"
	}
	return []byte(redacted)
}
