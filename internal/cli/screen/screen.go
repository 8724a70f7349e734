package screen

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"
)

// Screen writes lines, and a live part below them.
type Screen struct {
	out io.Writer
	// live: out is a terminal whose lines can be redrawn.
	live     bool
	coloured bool
	// size is the terminal's width and height in characters.
	size func() (int, int)
	// drawn are the live lines on the terminal now; last the rows of a stream, by key, as printed.
	drawn []string
	last  map[string]string
}

// Row is a live line about one thing. Its key tells it apart from other rows.
type Row struct {
	Key  string
	Line Line
	// Aside is what changes all the time, such as a duration; it is drawn on a terminal only.
	Aside string
}

// New is a screen on out: live and coloured if that is a terminal and the
// environment does not ask for less (NO_COLOR, TERM=dumb).
func New(out io.Writer, environment func(string) string) *Screen {
	s := &Screen{out: out, size: func() (int, int) { return 0, 0 }, last: map[string]string{}}
	f, isFile := out.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.size = func() (int, int) {
		w, h, err := term.GetSize(int(f.Fd()))
		if err != nil || w == 0 || h == 0 {
			return 80, 24
		}
		return w, h
	}
	s.live = environment("TERM") != "dumb"
	s.coloured = s.live && environment("NO_COLOR") == ""
	return s
}

// Live reports whether rows are redrawn in place.
func (s *Screen) Live() bool { return s.live }

// Print writes lines that stay, above the live part.
func (s *Screen) Print(lines ...Line) {
	var b strings.Builder
	b.WriteString(s.erased())
	for _, l := range lines {
		b.WriteString(l.Draw(s.coloured, 0) + "\n")
	}
	for _, l := range s.drawn {
		b.WriteString(l + "\n")
	}
	s.write(b.String())
}

// Printf writes a plain line that stays.
func (s *Screen) Printf(format string, args ...any) { s.Print(Text(fmt.Sprintf(format, args...))) }

// Draw replaces the live part by rows. Without a terminal it prints the rows that are new or have changed.
func (s *Screen) Draw(rows []Row) {
	if !s.live {
		s.stream(rows)
		return
	}
	lines := make([]Line, 0, len(rows))
	for _, r := range rows {
		l := r.Line
		if r.Aside != "" {
			l = append(append(Line{}, l...), Span{Text: "  " + r.Aside, Colour: Faint})
		}
		lines = append(lines, l)
	}
	s.replace(lines)
}

// Show replaces the live part by lines; without a terminal it prints them, with a blank line between one showing
// and the next.
func (s *Screen) Show(lines []Line) {
	if s.live {
		s.replace(lines)
		return
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	text := b.String()
	if text == s.last[""] {
		return
	}
	if s.last[""] != "" {
		text = "\n" + text
	}
	s.last[""] = b.String()
	s.write(text)
}

// Settle lets the live part stay as it is and begins a new one below it.
func (s *Screen) Settle() {
	s.drawn = nil
	clear(s.last)
}

// Clear takes the live part away.
func (s *Screen) Clear() {
	s.write(s.erased())
	s.Settle()
}

// passing are durations in a text: that time passes is no change.
var passing = regexp.MustCompile(`\b\d+(\.\d+)? (s|min|h|days)\b`)

// gist is what must differ in a text for it to be worth another line. Wider columns are no change either.
func gist(text string) string {
	return strings.Join(strings.Fields(passing.ReplaceAllString(text, "")), " ")
}

func (s *Screen) stream(rows []Row) {
	var b strings.Builder
	for _, r := range rows {
		text := r.Line.String()
		said := gist(text)
		if s.last[r.Key] == said {
			continue
		}
		s.last[r.Key] = said
		b.WriteString(text + "\n")
	}
	s.write(b.String())
}

// replace draws the lines over the live part. A part higher than the terminal could not be erased, so it is cut.
func (s *Screen) replace(lines []Line) {
	width, height := s.size()
	if most := height - 1; len(lines) > most {
		more := len(lines) - most + 1
		lines = append(append([]Line{}, lines[:most-1]...), Line{{Text: fmt.Sprintf("… %d more lines", more), Colour: Faint}})
	}
	drawn := make([]string, len(lines))
	for i, l := range lines {
		drawn[i] = l.Draw(s.coloured, width)
	}
	s.write(s.erased() + strings.Join(append(drawn, ""), "\n"))
	s.drawn = drawn
}

// erased is what moves the cursor to the beginning of the live part and clears from there.
func (s *Screen) erased() string {
	if len(s.drawn) == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", len(s.drawn))
}

// write ignores errors: who closed the output does not want it.
func (s *Screen) write(text string) {
	if text != "" {
		_, _ = io.WriteString(s.out, text)
	}
}
