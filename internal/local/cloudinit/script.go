package cloudinit

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// outcome is what became of the commands of one script.
type outcome struct {
	// failed are the commands with an exit code other than 0, in their order.
	failed []failed
	// last is the end of what the last command printed.
	last string
}

type failed struct {
	index int
	Failure
}

// scriptDir is where cloud-init keeps its scripts.
const scriptDir = "var/lib/cloud/instance/scripts"

// script runs commands as cloud-init does: as one shell script, so that variables, functions and folders of one
// command are those of the next. Marks between the commands, in the output itself, tell which of them runs and how each ended.
func (c *Config) script(ctx context.Context, s System, name string, commands []Command) outcome {
	if len(commands) == 0 {
		return outcome{}
	}
	marks := newMarks(s, commands)
	path := filepath.Join(scriptDir, name)
	whole := failed{index: len(commands), Failure: Failure{Command: name}}
	if err := s.writeFile(File{Path: "/" + path, Content: []byte(c.text(marks.nonce, commands)), Mode: 0o700}); err != nil {
		whole.Output = err.Error()
		return outcome{failed: []failed{whole}}
	}
	code, err := s.Run(ctx, []string{"/bin/sh", filepath.Join(s.Root, path)}, marks)
	marks.flush()
	if err != nil {
		whole.Output = err.Error()
		return outcome{failed: []failed{whole}}
	}
	if marks.running >= 0 && code != 0 {
		// The command ended the script itself, or the shell could not read it.
		marks.ended(code)
	}
	return outcome{failed: marks.failed, last: marks.tail.String()}
}

// text is the script, with a mark before and after each command.
func (c *Config) text(nonce string, commands []Command) string {
	var b strings.Builder
	instance := Command{Args: []string{c.Meta.InstanceID}}
	// The marks have a descriptor of their own, since a command may send all that follows elsewhere.
	fmt.Fprintf(&b, "#!/bin/sh\nexport INSTANCE_ID=%s\nexec 9>&1\n", instance)
	for i, command := range commands {
		fmt.Fprintf(&b, "printf '\\036%s b %d\\036' >&9\n%s\nprintf '\\036%s e %%d\\036' $? >&9\n", nonce, i, command, nonce)
	}
	// Marks are not output: the script's exit code is that of the last command no more, and no unit reads it.
	b.WriteString("exit 0\n")
	return b.String()
}

// marks reads the output of a script: it takes the marks out, writes the rest to the log and keeps its end.
type marks struct {
	system   System
	commands []Command
	nonce    string
	running  int // -1: between commands
	failed   []failed
	tail     tail
	pending  []byte // an incomplete mark
}

func newMarks(s System, commands []Command) *marks {
	return &marks{system: s, commands: commands, nonce: rand.Text(), running: -1}
}

const markByte = 0x1e

// longestMark is more than any mark has, in bytes: what goes on longer is output.
const longestMark = 128

// Write implements io.Writer for the script's output.
func (m *marks) Write(p []byte) (int, error) {
	m.pending = append(m.pending, p...)
	for len(m.pending) > 0 {
		start := bytes.IndexByte(m.pending, markByte)
		if start < 0 {
			m.print(m.pending)
			m.pending = nil
			break
		}
		m.print(m.pending[:start])
		m.pending = m.pending[start:]
		prefix := append([]byte{markByte}, m.nonce...)
		if len(m.pending) < len(prefix) && bytes.HasPrefix(prefix, m.pending) {
			break
		}
		if !bytes.HasPrefix(m.pending, prefix) {
			m.print(m.pending[:1])
			m.pending = m.pending[1:]
			continue
		}
		end := bytes.IndexByte(m.pending[1:], markByte)
		if end < 0 && len(m.pending) > longestMark {
			m.print(m.pending[:1])
			m.pending = m.pending[1:]
			continue
		}
		if end < 0 {
			break
		}
		m.mark(strings.Fields(string(m.pending[1 : end+1])))
		m.pending = m.pending[end+2:]
	}
	return len(p), nil
}

// flush prints what looked like a mark and was none.
func (m *marks) flush() {
	m.print(m.pending)
	m.pending = nil
}

func (m *marks) print(p []byte) {
	if len(p) == 0 {
		return
	}
	_, _ = m.tail.Write(p)
	_, _ = m.system.Log.Write(p)
}

func (m *marks) mark(fields []string) {
	if len(fields) != 3 {
		return
	}
	number, err := strconv.Atoi(fields[2])
	if err != nil {
		return
	}
	if fields[1] == "b" && number >= 0 && number < len(m.commands) {
		m.running = number
		m.tail.reset()
		m.system.Began(m.commands[number].String())
		return
	}
	if m.running >= 0 {
		m.ended(number)
	}
}

// ended records the exit code of the running command.
func (m *marks) ended(code int) {
	command := m.commands[m.running].String()
	if code != 0 {
		output := strings.TrimSpace(m.tail.String())
		if output == "" {
			output = fmt.Sprintf("exit code %d", code)
		}
		m.failed = append(m.failed, failed{index: m.running, Failure: Failure{Command: command, Output: output}})
		fmt.Fprintf(m.system.Log, "\ncommand %d failed with exit code %d\n", m.running+1, code)
	}
	m.running = -1
}

// tail keeps the end of what is written to it.
type tail struct {
	kept []byte
	cut  bool // something before it was dropped
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > outputLimit {
		t.kept, t.cut = append(t.kept[:0], t.kept[len(t.kept)-outputLimit:]...), true
	}
	return len(p), nil
}

func (t *tail) reset() { t.kept, t.cut = t.kept[:0], false }

// String is valid UTF-8 without what a terminal would act on. After a cut it begins with a whole line, or word: the rest of a
// secret could not be told from other text.
func (t *tail) String() string {
	text := string(t.kept)
	if t.cut {
		for _, end := range []string{"\n", " "} {
			if _, rest, found := strings.Cut(text, end); found && rest != "" {
				text = rest
				break
			}
		}
	}
	return plaintext.Strip(text)
}

// Sweep removes the scripts that Apply left under root: they repeat what the data holds.
func Sweep(root string) error {
	if err := os.RemoveAll(filepath.Join(root, scriptDir)); err != nil {
		return fmt.Errorf("removing scripts: %w", err)
	}
	return nil
}
