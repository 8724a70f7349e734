package screen

import (
	"bytes"
	"strings"
	"testing"
)

func terminal(width int) (*Screen, *bytes.Buffer) {
	var out bytes.Buffer
	s := New(&out, func(string) string { return "" })
	s.live, s.coloured, s.size = true, true, func() (int, int) { return width, 4 }
	return s, &out
}

func take(b *bytes.Buffer) string {
	s := b.String()
	b.Reset()
	return s
}

func TestLine(t *testing.T) {
	l := Line{{"ready", Good}, {"  ", Plain}, {"all is well  ", Faint}}
	for _, tt := range []struct {
		coloured bool
		width    int
		want     string
	}{
		{false, 0, "ready  all is well"},
		{false, 18, "ready  all is well"},
		{false, 10, "ready  al…"},
		{false, 7, "ready  "},
		{false, 1, "…"},
		{true, 0, "\x1b[32mready\x1b[0m  \x1b[2mall is well\x1b[0m"},
		{true, 4, "\x1b[32mrea…\x1b[0m"},
	} {
		if got := l.Draw(tt.coloured, tt.width); got != tt.want {
			t.Errorf("coloured %v, width %d: %q, want %q", tt.coloured, tt.width, got, tt.want)
		}
	}
	if got := l.String(); got != "ready  all is well" {
		t.Errorf("as text: %q", got)
	}
}

func TestColumns(t *testing.T) {
	lines := Columns([][]Span{
		{{Text: "demo-cp-1"}, {Text: "a"}, {Text: "Ready"}},
		{{Text: "demö"}, {Text: "long-domain"}, {Text: "NotReady", Colour: Bad}},
		{{Text: "a last cell makes no column wide"}},
	})
	want := []string{
		"demo-cp-1  a            Ready",
		"demö       long-domain  NotReady",
		"a last cell makes no column wide",
	}
	for i, l := range lines {
		if l.String() != want[i] {
			t.Errorf("line %d is %q, want %q", i, l, want[i])
		}
	}
}

func TestStreamPrintsOnlyChanges(t *testing.T) {
	var out bytes.Buffer
	s := New(&out, func(string) string { return "" })
	if s.Live() {
		t.Fatal("a buffer is no terminal")
	}
	row := func(key, text string) Row { return Row{key, Line{{text, Good}}, "1 s"} }
	s.Draw([]Row{row("a", "a starts"), row("b", "b starts")})
	if got := take(&out); got != "a starts\nb starts\n" {
		t.Errorf("first: %q", got)
	}
	s.Draw([]Row{row("a", "a starts"), row("b", "b is ready")})
	if got := take(&out); got != "b is ready\n" {
		t.Errorf("change: %q", got)
	}
	s.Draw([]Row{row("a", "a starts"), row("b", "b is ready")})
	if got := take(&out); got != "" {
		t.Errorf("no change: %q", got)
	}
	s.Draw([]Row{row("a", "a    starts")})
	if got := take(&out); got != "" {
		t.Errorf("other blanks: %q", got)
	}
	s.Draw([]Row{row("a", "a starts for 5 s, 2 of 3")})
	s.Draw([]Row{row("a", "a starts for 10 s, 2 of 3")})
	if got := take(&out); got != "a starts for 5 s, 2 of 3\n" {
		t.Errorf("time passes: %q", got)
	}
	s.Draw([]Row{row("a", "a starts for 10 s, 3 of 3")})
	if got := take(&out); got == "" {
		t.Error("a number that is no duration is not told")
	}
	s.Printf("%d done", 2)
	if got := take(&out); got != "2 done\n" {
		t.Errorf("print: %q", got)
	}
}

func TestShowWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	s := New(&out, func(string) string { return "" })
	s.Show([]Line{Text("one"), Text("two")})
	s.Show([]Line{Text("one"), Text("two")})
	s.Show([]Line{Text("one")})
	if got := take(&out); got != "one\ntwo\n\none\n" {
		t.Errorf("%q", got)
	}
}

func TestLiveRowsAreRedrawn(t *testing.T) {
	s, out := terminal(12)
	s.Draw([]Row{{"a", Text("a starts"), "3 s"}, {"b", Text("b"), ""}})
	if got := take(out); got != "a starts\x1b[2m  3…\x1b[0m\nb\n" {
		t.Errorf("first: %q", got)
	}
	s.Print(Text("a line that stays and is not cut"))
	if got := take(out); got != "\x1b[2A\x1b[Ja line that stays and is not cut\na starts\x1b[2m  3…\x1b[0m\nb\n" {
		t.Errorf("print above: %q", got)
	}
	s.Draw([]Row{{"a", Text("a is ready"), ""}})
	if got := take(out); got != "\x1b[2A\x1b[Ja is ready\n" {
		t.Errorf("fewer rows: %q", got)
	}
	s.Settle()
	s.Draw([]Row{{"c", Text("c"), ""}})
	if got := take(out); got != "c\n" {
		t.Errorf("after settling: %q", got)
	}
	s.Clear()
	if got := take(out); got != "\x1b[1A\x1b[J" {
		t.Errorf("clear: %q", got)
	}
	s.Show([]Line{Text("1"), Text("2"), Text("3"), Text("4"), Text("5")})
	if got := take(out); got != "1\n2\n\x1b[2m… 3 more li…\x1b[0m\n" {
		t.Errorf("higher than the terminal: %q", got)
	}
}

func TestNoControlCharactersWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	s := New(&out, func(string) string { return "" })
	s.Draw([]Row{{"a", Line{{"x", Bad}}, "1 s"}})
	s.Print(Line{{"y", Good}})
	s.Clear()
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("control characters in %q", out.String())
	}
}

// Names and messages come from machines and clusters: nothing in them may act on the terminal, or break what is redrawn.
func TestTextDoesNotActOnTheTerminal(t *testing.T) {
	const evil = "cp\x1b[2J\x1b]0;title\x07\r\u009b31m"
	const seen = "cp^[[2J^[]0;title^G^M<U+009B>31m"
	l := Line{{Text: evil, Colour: Good}}
	if got := l.String(); got != seen {
		t.Errorf("as text: %q", got)
	}
	if got := l.Draw(true, 0); got != "\x1b[32m"+seen+"\x1b[0m" {
		t.Errorf("drawn: %q", got)
	}
	if got := (Line{{Text: "a\nb"}}).Draw(false, 10); got != "a b" {
		t.Errorf("a live line: %q", got)
	}
	rows := [][]Span{{{Text: evil}, {Text: "x"}}, {{Text: "short"}, {Text: "y"}}}
	lines := Columns(rows)
	if a, b := strings.Index(lines[0].String(), "x"), strings.Index(lines[1].String(), "y"); a != b || rows[0][0].Text != evil {
		t.Errorf("columns begin at %d and %d, of %q", a, b, rows[0][0].Text)
	}
	s, out := terminal(200)
	s.Print(l)
	s.Printf("%s", evil)
	s.Draw([]Row{{Key: "a", Line: l, Aside: evil}})
	s.Show([]Line{l})
	if got := take(out); strings.ContainsAny(got, "\x07\r\u009b") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("on a terminal: %q", got)
	}
}
