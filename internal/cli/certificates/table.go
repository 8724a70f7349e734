package certificates

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/certificates/look"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/cluster/pki/inventory"
)

// renewals are what renews a certificate, in words.
var renewals = map[inventory.Renewal]string{
	inventory.ByKubelet: "kubelet", inventory.ByUpdate: "upgrade in place", inventory.ByReplacement: "replacement",
	inventory.ByManager: "manager", inventory.ByNobody: "nobody",
}

// tables draws reports, with a title where there are several.
func tables(all []look.Report, wide bool, now time.Time) []screen.Line {
	if len(all) == 0 {
		return []screen.Line{screen.Text("there is no cluster; `quorate up` makes one")}
	}
	var lines []screen.Line
	for i, r := range all {
		if i > 0 {
			lines = append(lines, screen.Line{})
		}
		if len(all) > 1 {
			lines = append(lines, screen.Line{{Text: r.Namespace + "/" + r.Cluster, Colour: screen.Strong}})
		}
		lines = append(lines, table(r, wide, now)...)
	}
	return lines
}

// table draws a report: certificates, on demand keys, and below them what is not in the table.
func table(r look.Report, wide bool, now time.Time) []screen.Line {
	titles := []string{"NAME", "MACHINE", "WHERE", "ENDS", "LEFT", "RENEWED BY", "ISSUER"}
	if wide {
		titles = append(titles, "SUBJECT", "NAMES", "KEY", "SHA-256")
	}
	rows := [][]screen.Span{cells(append(titles, "WARNINGS"), screen.Faint)}
	keys := 0
	for _, e := range r.Entries {
		if e.Key {
			keys++
		}
		if !e.Key || wide {
			rows = append(rows, row(e, wide, now))
		}
	}
	lines := screen.Columns(rows)
	if keys > 0 && !wide {
		lines = append(lines, screen.Line{}, screen.Text(fmt.Sprintf("Certificates: %d. Keys, which --wide lists: %d.", r.Certificates(), keys)))
	}
	return append(lines, unseen(r)...)
}

func cells(texts []string, colour screen.Colour) []screen.Span {
	var all []screen.Span
	for _, text := range texts {
		all = append(all, screen.Span{Text: text, Colour: colour})
	}
	return all
}

// row is one entry.
func row(e inventory.Entry, wide bool, now time.Time) []screen.Span {
	ends, left, renewed := "", "", renewals[e.RenewedBy]
	if e.Key {
		renewed = ""
	} else {
		ends, left = e.NotAfter.Format(time.DateOnly), leftOf(e.NotAfter.Sub(now))
	}
	all := cells([]string{nameOf(e), dashed(e.Machine), where(e), ends, left, renewed, commonName(e.Issuer)}, screen.Plain)
	if wide {
		fingerprint := e.Fingerprint
		if e.Key {
			fingerprint = e.PublicKey
		}
		all = append(all, cells([]string{commonName(e.Subject), firstNames(e.Names), e.KeyKind, fingerprint[:min(len(fingerprint), 16)]},
			screen.Plain)...)
	}
	var reasons []string
	colour := screen.Doubt
	for _, w := range e.Warnings {
		reasons = append(reasons, w.Reason)
		if w.Reason == inventory.Expired || w.Reason == inventory.NeverValid {
			colour = screen.Bad
		}
	}
	return append(all, screen.Span{Text: strings.Join(reasons, ", "), Colour: colour})
}

// nameOf says what an entry is for, and that it is a key.
func nameOf(e inventory.Entry) string {
	switch {
	case e.Key && e.Private:
		return e.Name + " (private key)"
	case e.Key:
		return e.Name + " (public key)"
	}
	return e.Name
}

func dashed(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// where is the place of an entry.
func where(e inventory.Entry) string {
	if e.Where == inventory.Secret {
		return "secret " + e.Location
	}
	return e.Location
}

// leftOf is how long a certificate is still valid.
func leftOf(left time.Duration) string {
	switch days := int(left / (24 * time.Hour)); {
	case left < 0:
		return "none"
	case days == 0:
		return left.Round(time.Minute).String()
	default:
		return fmt.Sprintf("%dd", days)
	}
}

// commonName is the common name of a subject or an issuer, or all of it where it has none.
func commonName(name string) string {
	for part := range strings.SplitSeq(name, ",") {
		if cn, is := strings.CutPrefix(part, "CN="); is {
			return cn
		}
	}
	return name
}

// firstNames are the first three names of a certificate, and how many there are beside them.
func firstNames(names []string) string {
	const most = 3
	if len(names) <= most {
		return dashed(strings.Join(names, ","))
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ","), len(names)-most)
}

// unseen says what could not be looked at. Machines of which the same is told share a line.
func unseen(r look.Report) []screen.Line {
	if len(r.Unseen) == 0 {
		return nil
	}
	lines := []screen.Line{{}, {{Text: "Not looked at:", Colour: screen.Doubt}}}
	var order []string
	of := map[string][]string{}
	for _, u := range r.Unseen {
		text := placeOf(u) + ": " + u.Why
		if _, there := of[text]; !there {
			order = append(order, text)
		}
		if u.Machine != "" {
			of[text] = append(of[text], u.Machine)
		} else {
			of[text] = nil
		}
	}
	for _, text := range order {
		if machines := of[text]; len(machines) > 0 {
			text = strings.Join(machines, ", ") + ": " + text
		}
		lines = append(lines, screen.Text("  "+text))
	}
	return lines
}

func placeOf(u inventory.Unseen) string {
	switch {
	case u.Where == inventory.Secret:
		return "secret " + u.Location
	case u.Location != "":
		return u.Location
	case u.Where == inventory.File:
		return "files"
	}
	return "signatures"
}
