//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// browser is a real one without a window, which tools/browser leads.
type browser struct {
	in  io.WriteCloser
	out *bufio.Reader
}

// besides is what a browser has seen beside its page.
type besides struct {
	Elsewhere, Problems []string
	Bytes               float64
}

// newBrowser starts a browser that ends with the test. QUORATE_BROWSER is the path of what leads it.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := os.Getenv("QUORATE_BROWSER")
	if path == "" {
		t.Fatal("QUORATE_BROWSER names nothing that leads a browser: run this by make e2e RUN=dashboard")
	}
	c := exec.Command(path)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the browser ended with %v", err)
		}
	})
	return &browser{in, bufio.NewReaderSize(out, 1<<20)}
}

// do has the browser do one thing (see tools/browser), and reads the value of it if one is wanted.
func (b *browser) do(t *testing.T, what, text string, into any) {
	t.Helper()
	request, err := json.Marshal(map[string]string{"do": what, "text": text})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.in.Write(append(request, '\n')); err != nil {
		t.Fatalf("the browser takes nothing: %v", err)
	}
	line, err := b.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the browser does not answer to %s: %v", what, err)
	}
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if answer.Error != "" {
		t.Fatalf("the browser, %s %.200s: %s", what, text, answer.Error)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(answer.Value, into); err != nil {
		t.Fatalf("the browser, %s %.200s: %s: %v", what, text, answer.Value, err)
	}
}

// text is what an expression says.
func (b *browser) text(t *testing.T, expression string) string {
	t.Helper()
	var said string
	b.do(t, "eval", fmt.Sprintf("String(%s)", expression), &said)
	return said
}
