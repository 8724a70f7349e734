// Package screen draws text for people: aligned columns, colours where they
// are wanted, and rows that are redrawn in place on a terminal and printed
// only when they change elsewhere. It knows terminals, not what is drawn.
package screen

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// Colour is how a span of text looks on a terminal.
type Colour int

// The colours, by what they are used for.
const (
	Plain  Colour = iota
	Good          // green
	Bad           // red
	Doubt         // yellow
	Faint         // grey
	Strong        // bold
)

var codes = map[Colour]string{Good: "32", Bad: "31", Doubt: "33", Faint: "2", Strong: "1"}

// Span is text of one colour.
type Span struct {
	Text   string
	Colour Colour
}

// Line is a line of spans, without its end.
type Line []Span

// Text makes a line of plain text.
func Text(s string) Line { return Line{{Text: s}} }

// String is the line without colours, without blanks at its end.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(plaintext.Visible(s.Text))
	}
	return strings.TrimRight(b.String(), " ")
}

// Draw is the line with its colours, if coloured, cut to width characters; 0: not cut. What a terminal would act on in the spans'
// own text can be seen instead.
func (l Line) Draw(coloured bool, width int) string {
	var b strings.Builder
	left := width
	for i, s := range l {
		text := plaintext.Visible(s.Text)
		if width > 0 { // it must stay one line, or it could not be erased
			text = strings.ReplaceAll(text, "\n", " ")
		}
		if i == len(l)-1 {
			text = strings.TrimRight(text, " ")
		}
		if width > 0 {
			text = cut(text, left)
			left -= utf8.RuneCountInString(text)
		}
		code := codes[s.Colour]
		if !coloured || code == "" || text == "" {
			b.WriteString(text)
			continue
		}
		b.WriteString("\x1b[" + code + "m" + text + "\x1b[0m")
	}
	return b.String()
}

// cut shortens text to width characters, the last of which is then an ellipsis.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width <= 0 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Columns makes lines of rows of cells, each column as wide as its widest cell, two blanks between.
func Columns(rows [][]Span) []Line {
	var widths []int
	rows = slices.Clone(rows)
	for r, row := range rows {
		rows[r] = slices.Clone(row)
		for i, cell := range row {
			cell.Text = plaintext.Visible(cell.Text) // before it is measured
			rows[r][i] = cell
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 { // the last cell of a row needs no column
				widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
			}
		}
	}
	lines := make([]Line, len(rows))
	for r, row := range rows {
		for i, cell := range row {
			lines[r] = append(lines[r], cell)
			if i < len(row)-1 {
				blanks := widths[i] - utf8.RuneCountInString(cell.Text) + 2
				lines[r] = append(lines[r], Span{Text: strings.Repeat(" ", blanks)})
			}
		}
	}
	return lines
}
