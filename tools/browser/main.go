// Command browser is a real browser that a test leads: it runs Chromium without a window, reads one request as a line of JSON, does it, and
// writes one answer. It is a module of its own, so that Quorate's programs and tests do not depend on what speaks to Chromium.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// limit is how long one request may take.
const limit = time.Minute

// request is what the test asks for.
type request struct {
	// Do is open, eval, key, width, scheme, picture or seen.
	Do string `json:"do"`
	// Text is an address to open, or an expression whose value (or the value of the promise that it is) is wanted. Or it is a key (Tab,
	// Enter, Space), a width in pixels, a colour scheme (dark, light), or the file for a picture of the page.
	Text string `json:"text,omitempty"`
}

// answer is what came of it.
type answer struct {
	// Value is what an expression evaluates to, or what was seen.
	Value json.RawMessage `json:"value,omitempty"`
	// Error says what went wrong; empty: nothing.
	Error string `json:"error,omitempty"`
}

// seen is what happened beside the page since the browser began.
type seen struct {
	// Elsewhere are addresses that were asked for and are not of the host which was opened.
	Elsewhere []string `json:"elsewhere"`
	// Problems are errors of scripts, of the console and of the Content-Security-Policy.
	Problems []string `json:"problems"`
	// Bytes is how much was received, as it was sent.
	Bytes float64 `json:"bytes"`
}

// tab is the one page of the browser.
type tab struct {
	ctx  context.Context
	lock sync.Mutex
	host string
	seen seen
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

// serve answers until the input ends.
func serve() error {
	program, err := find()
	if err != nil {
		return err
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.WindowSize(1280, 900))
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	ctx, cancel := chromedp.NewContext(allocated)
	defer cancel()
	t := &tab{ctx: ctx, seen: seen{Elsewhere: []string{}, Problems: []string{}}}
	chromedp.ListenTarget(ctx, t.note)
	if err := chromedp.Run(ctx, log.Enable(), network.Enable()); err != nil {
		return fmt.Errorf("starting %s: %w", program, err)
	}
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r request
		var a answer
		err := json.Unmarshal(lines.Bytes(), &r)
		if err == nil {
			a.Value, err = t.do(r)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

// find returns the path of a browser.
func find() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no browser is in the PATH (%s): on Debian, `apt-get install chromium`", strings.Join(names, ", "))
}

// note notes what happens beside the page.
func (t *tab) note(event any) {
	t.lock.Lock()
	defer t.lock.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		at, err := url.Parse(e.Request.URL)
		if err != nil || at.Scheme != "data" && at.Host != t.host {
			t.seen.Elsewhere = append(t.seen.Elsewhere, e.Request.URL)
		}
	case *network.EventLoadingFinished:
		t.seen.Bytes += e.EncodedDataLength
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			t.seen.Problems = append(t.seen.Problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		t.seen.Problems = append(t.seen.Problems, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			t.seen.Problems = append(t.seen.Problems, fmt.Sprintf("console: %s", e.Args))
		}
	}
}

// do does one request.
func (t *tab) do(r request) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	switch r.Do {
	case "open":
		at, err := url.Parse(r.Text)
		if err != nil {
			return nil, err
		}
		t.lock.Lock()
		t.host = at.Host
		t.lock.Unlock()
		return nil, chromedp.Run(ctx, chromedp.Navigate(r.Text))
	case "eval":
		var value json.RawMessage
		err := chromedp.Run(ctx, chromedp.Evaluate(r.Text, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
			return p.WithAwaitPromise(true)
		}))
		if errors.Is(err, chromedp.ErrJSUndefined) || errors.Is(err, chromedp.ErrJSNull) {
			return nil, nil
		}
		return value, err
	case "key":
		keys := map[string]string{"Tab": kb.Tab, "Enter": kb.Enter, "Space": " "}
		if keys[r.Text] == "" {
			return nil, fmt.Errorf("key %q: must be Tab, Enter or Space", r.Text)
		}
		return nil, chromedp.Run(ctx, chromedp.KeyEvent(keys[r.Text]))
	case "width":
		var width int64
		if _, err := fmt.Sscan(r.Text, &width); err != nil {
			return nil, fmt.Errorf("width %q: %w", r.Text, err)
		}
		return nil, chromedp.Run(ctx, chromedp.EmulateViewport(width, 900))
	case "scheme":
		return nil, chromedp.Run(ctx, emulation.SetEmulatedMedia().WithFeatures(
			[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: r.Text}}))
	case "picture":
		var picture []byte
		if err := chromedp.Run(ctx, chromedp.CaptureScreenshot(&picture)); err != nil {
			return nil, err
		}
		return nil, os.WriteFile(r.Text, picture, 0o644)
	case "seen":
		t.lock.Lock()
		defer t.lock.Unlock()
		return json.Marshal(t.seen)
	}
	return nil, fmt.Errorf("do %q: must be open, eval, key, width, scheme, picture or seen", r.Do)
}
