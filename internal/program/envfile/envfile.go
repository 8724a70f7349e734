// Package envfile reads and writes files of variables as systemd does: those of EnvironmentFile=, and the words into which a command line
// splits the value of a variable. kubeadm keeps the kubelet's flags in such a file. It knows no files of the node and no names of flags.
package envfile

import "strings"

const (
	blanks   = " \t\n\r"
	newlines = "\n\r"
)

// assignment is one assignment of a file: the name and the value that systemd reads, and where its text begins and ends in the file.
type assignment struct {
	name, value string
	begin, end  int
}

// Variables returns the assignments of a file as NAME=value, in their order. A later one of the same name counts.
func Variables(file string) []string {
	var all []string
	for _, a := range parse(file) {
		all = append(all, a.name+"="+a.value)
	}
	return all
}

// Get returns the value of a variable, as the last assignment of a file has it, and reports whether there is one.
func Get(file, name string) (value string, found bool) {
	a, found := last(file, name)
	return a.value, found
}

// Set returns a file in which the last assignment of a variable has another value. False: the file has none, and is returned as it is.
func Set(file, name, value string) (string, bool) {
	a, found := last(file, name)
	if !found {
		return file, false
	}
	return file[:a.begin] + name + "=" + quoted(value) + file[a.end:], true
}

// quoted is a value between double quotes. kubeadm escapes the same characters.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

// last returns the last assignment of a variable: it counts.
func last(file, name string) (found assignment, ok bool) {
	for _, a := range parse(file) {
		if a.name == name {
			found, ok = a, true
		}
	}
	return found, ok
}

// reader reads a file from its beginning to its end.
type reader struct {
	text string
	at   int
}

func (r *reader) over() bool { return r.at >= len(r.text) }

// next returns the next byte and goes on behind it.
func (r *reader) next() byte {
	r.at++
	return r.text[r.at-1]
}

// parse returns all assignments of a file, in their order. The rules are those of systemd's parse_env_file.
func parse(file string) []assignment {
	var all []assignment
	r := &reader{text: file}
	for !r.over() {
		begin := r.at
		c := r.next()
		switch {
		case strings.IndexByte(blanks, c) >= 0:
		case c == '#' || c == ';':
			r.comment()
		default:
			r.at = begin
			if name, ok := r.name(); ok {
				value := r.value()
				all = append(all, assignment{name: name, value: value, begin: begin, end: r.at})
			}
		}
	}
	return all
}

// comment goes on behind a comment: the end of its line, unless that is escaped.
func (r *reader) comment() {
	for !r.over() {
		c := r.next()
		if c == '\\' && !r.over() {
			r.next()
		} else if strings.IndexByte(newlines, c) >= 0 {
			return
		}
	}
}

// name reads a name and the equals sign. False: the line has none.
func (r *reader) name() (string, bool) {
	begin := r.at
	for !r.over() {
		c := r.next()
		if c == '=' {
			return strings.TrimRight(r.text[begin:r.at-1], blanks), true
		}
		if strings.IndexByte(newlines, c) >= 0 {
			return "", false
		}
	}
	return "", false
}

// value reads a value, and stops before the end of its line. Parts in quotes may follow each other; a part without quotes reaches to the
// end of the line.
func (r *reader) value() string {
	value := ""
	for !r.over() {
		c := r.text[r.at]
		switch {
		case strings.IndexByte(newlines, c) >= 0:
			return value
		case c == '\'':
			r.next()
			value += r.single()
		case c == '"':
			r.next()
			value += r.double()
		case strings.IndexByte(blanks, c) >= 0:
			r.next()
		default:
			return value + r.plain()
		}
	}
	return value
}

// single reads up to the next single quote.
func (r *reader) single() string {
	begin := r.at
	for !r.over() {
		if r.next() == '\'' {
			return r.text[begin : r.at-1]
		}
	}
	return r.text[begin:]
}

// double reads up to the next double quote. Of what a backslash can stand before, only what a shell escapes loses it; a line that ends in
// one goes on.
func (r *reader) double() string {
	var b strings.Builder
	for !r.over() {
		c := r.next()
		switch {
		case c == '"':
			return b.String()
		case c != '\\' || r.over():
			b.WriteByte(c)
		default:
			if c = r.next(); strings.IndexByte("\"\\`$", c) < 0 && c != '\n' {
				b.WriteByte('\\')
			}
			if c != '\n' {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// plain reads to the end of the line without blanks at its end. What follows a backslash is taken as it is; a line that ends in one goes
// on.
func (r *reader) plain() string {
	var b strings.Builder
	kept := 0
	for !r.over() && strings.IndexByte(newlines, r.text[r.at]) < 0 {
		c := r.next()
		switch {
		case c != '\\':
			b.WriteByte(c)
			if strings.IndexByte(blanks, c) < 0 {
				kept = b.Len()
			}
		case !r.over():
			if c = r.next(); strings.IndexByte(newlines, c) < 0 {
				b.WriteByte(c)
			}
			kept = b.Len()
		}
	}
	return b.String()[:kept]
}

// Word is one word of the value of a variable.
type Word struct {
	// Raw is the word as it stands in the value, with its quotes and backslashes.
	Raw string
	// Text is the argument that a program gets.
	Text string
}

// Words returns the words into which systemd splits the value of a variable that is one word of a command line, such as
// $KUBELET_KUBEADM_ARGS. Quotes may stand anywhere in a word, and a backslash takes the meaning from what follows it.
func Words(value string) []Word {
	var words []Word
	r := &reader{text: value}
	for !r.over() {
		if strings.IndexByte(blanks, r.text[r.at]) >= 0 {
			r.next()
			continue
		}
		begin := r.at
		text := r.word()
		words = append(words, Word{Raw: value[begin:r.at], Text: text})
	}
	return words
}

// word reads one word, and stops before the blank that ends it.
func (r *reader) word() string {
	var b strings.Builder
	quote := byte(0)
	for !r.over() {
		c := r.text[r.at]
		if quote == 0 && strings.IndexByte(blanks, c) >= 0 {
			break
		}
		r.next()
		switch {
		case c == '\\' && !r.over():
			b.WriteByte(r.next())
		case c == '\\':
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Texts are the arguments that a program gets of the value of a variable.
func Texts(value string) []string {
	words := Words(value)
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}
	return texts
}
