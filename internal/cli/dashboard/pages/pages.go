// Package pages draws the dashboard: it makes HTML of the same data that the commands print with -o json, and has the style, the script and
// the pictures that the pages need. It knows no client, no server and no clock; the caller has read the data and says when.
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/advice"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/program/plaintext"
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// Assets are the style and the scripts, by their names.
func Assets() fs.FS {
	sub, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		return assetFiles // not reached: the folder is embedded
	}
	return sub
}

// The views of a cluster, as they stand in addresses.
const (
	ViewStatus  = "status"
	ViewRules   = "rules"
	ViewPlan    = "plan"
	ViewHistory = "history"
	ViewActions = "actions"
)

// Frame is what stands around each page.
type Frame struct {
	// Base is the folder of all pages, with a slash on either side, and Assets that of style and scripts.
	Base, Assets string
	// Part: only what changes is wanted, for a page that is open already.
	Part bool
	// Files: the page is a file beside the others of one cluster, without a server, a session and scripts.
	Files bool
	// Now is the time of the answer, and Looked when the data were read.
	Now, Looked time.Time
	// Every is how often an open page asks again; 0: never.
	Every time.Duration
	// Namespace and Name are of the cluster that the page is about; empty: it is about all.
	Namespace, Name string
	// View is one of those above; empty: another page.
	View string
	// HasEtcd: the cluster has an EtcdCluster. Etcd: the view is about that, and not about the control plane.
	HasEtcd, Etcd bool
	// Acts: actions are offered.
	Acts bool
	// Change: the view is the plan of a change that was typed in. Query is that of its address, and Same the command that does the same.
	Change      bool
	Query, Same string
}

// Home is the address of the cluster's first page.
func (f Frame) Home() string {
	if f.Files {
		return "index.html"
	}
	return f.Base + "clusters/" + f.Namespace + "/" + f.Name
}

// Group is the address of the view about the control plane, or about the cluster's EtcdCluster.
func (f Frame) Group(etcd bool) string {
	f.Etcd = etcd
	return f.Of(f.View)
}

// file is the name of the file of a view.
func (f Frame) file(view, ending string) string {
	if f.Etcd && view != ViewStatus && view != ViewPlan {
		view += "-etcd"
	}
	return view + ending
}

// Of is the address of a view of the cluster, about the same group.
func (f Frame) Of(view string) string {
	switch {
	case f.Files && view == ViewStatus:
		return f.Home()
	case f.Files:
		return f.file(view, ".html")
	}
	address := f.Home()
	if view != ViewStatus {
		address += "/" + view
	}
	if f.Etcd && (view == ViewRules || view == ViewHistory) {
		address += "?etcd=true"
	}
	return address
}

// JSON is the address of the page's data, as the command prints it with -o json.
func (f Frame) JSON() string {
	switch {
	case f.Files:
		return f.file(f.View, ".json")
	case f.Name == "":
		return f.Base + "status.json"
	case f.Change:
		return f.Home() + "/plan/change.json?" + f.Query
	case f.Etcd && (f.View == ViewRules || f.View == ViewHistory):
		return f.Home() + "/" + f.View + ".json?etcd=true"
	}
	return f.Home() + "/" + f.View + ".json"
}

// Command is the command that prints the same of the cluster.
func (f Frame) Command() string {
	command := f.View
	if f.Change {
		return f.Same + " -o json"
	}
	if f.View == ViewRules {
		command = "explain"
	}
	if f.Etcd && (f.View == ViewRules || f.View == ViewHistory) {
		return "quorate " + command + " " + f.named() + " --etcd -o json"
	}
	return "quorate " + command + " " + f.named() + " -o json"
}

// named is how commands name the cluster.
func (f Frame) named() string { return f.Namespace + "/" + f.Name }

// body is a page, before it is drawn.
type body struct {
	Frame
	// Title is that of the window, without the name of the program.
	Title string
	// Level is the most urgent one on the page; AsWanted where none is.
	Level report.Level
	Main  template.HTML
	// Alone: the page has no navigation, as before the sign-in.
	Alone bool
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"iso": iso, "date": date, "class": class, "shape": shape, "words": words, "elapsed": report.Elapsed, "member": report.MemberName,
	"now":    func(f Frame, t time.Time) moment { return moment{f.Now, t} },
	"advice": advice.OfCondition, "strength": report.StrengthText,
	"entry": func(f Frame, p past) shown { return shown{f, p} },
}).ParseFS(templateFiles, "templates/*.html"))

// draw writes a page around what a template makes of data.
func draw(w io.Writer, name string, data any, page body) error {
	var main, all bytes.Buffer
	if err := templates.ExecuteTemplate(&main, name, data); err != nil {
		return fmt.Errorf("drawing %s: %w", name, err)
	}
	page.Main = template.HTML(main.String())
	layout := "layout.html"
	if page.Part {
		layout = "part"
	}
	if err := templates.ExecuteTemplate(&all, layout, page); err != nil {
		return fmt.Errorf("drawing %s: %w", name, err)
	}
	// No template has a character that a terminal acts on, or one that changes the direction of writing. So all that are there came with the
	// data, and are shown instead.
	_, err := io.WriteString(w, visible(all.String()))
	return err
}

// visible is a page in which whatever a terminal acts on can be seen instead.
func visible(page string) string {
	if plaintext.Visible(page) == page {
		return page
	}
	var b strings.Builder
	for _, r := range page {
		text := string(r)
		if shown := plaintext.Visible(text); shown != text {
			text = template.HTMLEscapeString(shown) // it may have angle brackets
		}
		b.WriteString(text)
	}
	return b.String()
}

// SignIn draws the page on which the one-time token is given. why says what is wrong; empty: nothing.
func SignIn(w io.Writer, f Frame, why string) error {
	return draw(w, "signin.html", struct {
		Frame
		Why string
	}{f, why}, body{Frame: f, Title: "Sign in", Level: report.AsWanted, Alone: true})
}

// Failure draws a page that says why there is no other.
func Failure(w io.Writer, f Frame, title, why string) error {
	return draw(w, "failure.html", struct {
		Frame
		Title, Why string
	}{f, title, why}, body{Frame: f, Title: title, Level: report.Unknown})
}

// shown is an entry of a history on a page.
type shown struct {
	Frame Frame
	Past  past
}

// moment is a time as it is shown now.
type moment struct {
	now, at time.Time
}

// Known reports whether there is a time.
func (m moment) Known() bool { return !m.at.IsZero() }

// ISO is the time for machines.
func (m moment) ISO() string { return iso(m.at) }

// Text is how long ago it was, or in how long it will be.
func (m moment) Text() string { return ago(m.now, m.at) }

// ago says how long ago a time was, or in how long it will be.
func ago(now, at time.Time) string {
	if at.After(now.Add(time.Second)) {
		return "in " + inUnit(at.Sub(now))
	}
	return inUnit(max(now.Sub(at), 0)) + " ago"
}

// inUnit is a duration in one unit. The script of the pages does the same.
func inUnit(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func iso(t time.Time) string  { return t.UTC().Format(time.RFC3339Nano) }
func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// class is the class of a colour.
func class(c screen.Colour) string {
	switch c {
	case screen.Good:
		return "good"
	case screen.Bad:
		return "bad"
	case screen.Doubt:
		return "doubt"
	case screen.Faint:
		return "faint"
	case screen.Strong:
		return "strong"
	}
	return "plain"
}

// shape names the picture beside a level's word. Each level has its own, so that no colour is needed.
func shape(l report.Level) string {
	switch l {
	case report.QuorumLost:
		return "lost"
	case report.Broken:
		return "broken"
	case report.ForPerson:
		return "person"
	case report.AtRisk:
		return "risk"
	case report.Working:
		return "working"
	case report.AsWanted:
		return "wanted"
	}
	return "unknown"
}
