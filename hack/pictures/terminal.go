package main

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
)

// Colours of the pictures. They are readable on the light and on the dark background of a forge, because each picture has its own.
const (
	background = "#0d1117"
	plain      = "#e6edf3"
	faint      = "#8b949e"
	good       = "#3fb950"
	doubt      = "#d29922"
	busy       = "#58a6ff"
)

// The size of a character and of a line, in pixels.
const (
	characterWidth = 8.4
	lineHeight     = 20
	margin         = 16
)

// words are what quorate colours on a terminal, in the order in which they are looked for.
var words = []struct {
	pattern *regexp.Regexp
	colour  string
}{
	{regexp.MustCompile(`^\$ .*`), busy},
	{regexp.MustCompile(`^[├└│─ ]+`), faint},
	{regexp.MustCompile(`^(?:Provisioned|\d of \d ready|ready, \d of \d components healthy|healthy|quorum \d of \d, can stand \d failures?)`), good},
	{regexp.MustCompile(`^(?:https://\S+|\d+\.\d+\.\d+\.\d+|[0-9a-f]{16}|nothing to do: .*|the first expires .*)`), faint},
	{regexp.MustCompile(`^(?:\S+|\s+)`), plain},
}

// drawTerminal draws lines as a terminal shows them.
func drawTerminal(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	longest := 0
	for _, line := range lines {
		longest = max(longest, len([]rune(line)))
	}
	var b strings.Builder
	begin(&b, int(float64(longest)*characterWidth)+2*margin, len(lines)*lineHeight+2*margin, "quorate status of a control plane of three machines")
	for i, line := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">`, margin, margin+14+i*lineHeight)
		for line != "" {
			for _, w := range words {
				if found := w.pattern.FindString(line); found != "" {
					fmt.Fprintf(&b, `<tspan fill="%s">%s</tspan>`, w.colour, escape(found))
					line = line[len(found):]
					break
				}
			}
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// begin writes the head of a picture.
func begin(b *strings.Builder, width, height int, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14">
<!-- Drawn by make pictures. -->
<title>%s</title>
<rect width="100%%" height="100%%" rx="8" fill="%s"/>
`, width, height, width, height, escape(title), background)
}

// escape returns text as XML has it.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder returns no error
	return b.String()
}
