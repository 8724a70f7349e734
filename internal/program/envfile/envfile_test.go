package envfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestGet: each value is what systemd's own parser made of the line (the environment generator of systemd 252).
func TestGet(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{`A=b`, "b"},
		{`A="--x=y --z"` + "\n", "--x=y --z"},
		{`  A = b  ` + "\n", "b"},
		{`A=--x=1 --y=2` + "\n", "--x=1 --y=2"},
		{"A=b\nA=c\n", "c"},
		{"#A=b\n;A=c\nA=d # e\n", "d # e"},
		{`A="--x=\"a<5%,b\" --y"`, `--x="a<5%,b" --y`},
		{`A="a\\b\nc\d"`, `a\b\nc\d`},
		{"A=\"a\\\nb\"", "ab"},
		{"A=a\\\nb\n", "ab"},
		{`A='a"b\c'`, `a"b\c`},
		{`A="a"'b'c"d"`, `abc"d"`},
		{`A="a" b`, `ab`},
		{`A=a\ b\"c`, `a b"c`},
		{`A=a"b c"`, `a"b c"`},
		{"A=\nB=c\n", ""},
		{`A="a` + "\nB=c\"\n", "a\nB=c"},
		{"no assignment\nA=b\n", "b"},
	} {
		if got, found := Get(test.file, "A"); got != test.want || !found {
			t.Errorf("%q: %q, %t, want %q", test.file, got, found, test.want)
		}
	}
	for _, file := range []string{"", "B=c\n", "# A=b\n", "A\n"} {
		if got, found := Get(file, "A"); found {
			t.Errorf("%q: %q", file, got)
		}
	}
}

func TestVariables(t *testing.T) {
	got := Variables("# x\nA=b c\n  D = \"e\\\"f\"\nA='g'\nnone\n")
	if want := []string{"A=b c", `D=e"f`, "A=g"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSet: only the assignment that counts is written, as kubeadm would (Go's %q), and what is written is read as the same.
func TestSet(t *testing.T) {
	for _, value := range []string{"", "--x=y", `--x="a<5%" --y='b c'`, `a\b`, "$A `b`", `\"`, "a\nb"} {
		file := "# a comment\nA=first\nB=\"x\"\nA=\"--old=\\\"1\\\"\" \nC=d\n"
		got, found := Set(file, "A", value)
		if read, _ := Get(got, "A"); read != value || !found {
			t.Errorf("%q is read as %q", value, read)
		}
		if again, _ := Set(got, "A", value); again != got {
			t.Errorf("%q, written again: %q", got, again)
		}
		if !strings.HasPrefix(got, "# a comment\nA=first\nB=\"x\"\nA=") || !strings.HasSuffix(got, "\nC=d\n") {
			t.Errorf("%q", got)
		}
		if line := fmt.Sprintf("\nA=%q\n", value); !strings.Contains(value, "\n") && !strings.Contains(got, line) {
			t.Errorf("%q has no line %q", got, line)
		}
	}
	if got, found := Set("B=c\n", "A", "x"); got != "B=c\n" || found {
		t.Errorf("%q, %t", got, found)
	}
}

func TestWords(t *testing.T) {
	for value, want := range map[string][]Word{
		"":                            nil,
		" --a=b\t--c\nd ":             {{"--a=b", "--a=b"}, {"--c", "--c"}, {"d", "d"}},
		`--x="a<5%, b<1Gi" --y`:       {{`--x="a<5%, b<1Gi"`, "--x=a<5%, b<1Gi"}, {"--y", "--y"}},
		`"--x=a b" --y='c"d' e\ f\"g`: {{`"--x=a b"`, "--x=a b"}, {`--y='c"d'`, `--y=c"d`}, {`e\ f\"g`, `e f"g`}},
		`"" a`:                        {{`""`, ""}, {"a", "a"}},
		`"a b`:                        {{`"a b`, "a b"}},
		`'a\'b'`:                      {{`'a\'b'`, "a'b"}},
		`a\`:                          {{`a\`, "a"}},
	} {
		if got := Words(value); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	if got := Texts(`--x="a b" c`); !slices.Equal(got, []string{"--x=a b", "c"}) {
		t.Errorf("%q", got)
	}
}

// FuzzSet: whatever the file and the value, what was written is read again, and nothing else in the file changes.
func FuzzSet(f *testing.F) {
	for _, seed := range [][2]string{{"A=b\n", "c"}, {"#\\\nA=\"b\\\"\"x\nB=c", `"\`}, {"A='", "d"}, {"A=b\\", "e"}, {"B=\"\nA=1\n", "f"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, file, value string) {
		got, found := Set(file, "A", value)
		if _, has := Get(file, "A"); has != found {
			t.Fatalf("%q: %t, %t", file, has, found)
		}
		if !found {
			return
		}
		before, after := parse(file), parse(got)
		if len(before) != len(after) {
			t.Fatalf("%q became %q", file, got)
		}
		if read, _ := Get(got, "A"); read != value {
			t.Errorf("%q in %q is read as %q", value, got, read)
		}
	})
}
