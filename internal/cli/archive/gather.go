package archive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/pages"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/program/buildinfo"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// source is where all is read.
type source struct {
	client client.Client
	// host has the machines of this host; nil: the machines are elsewhere.
	host *sandbox.Host
	// settle changes plans as the command `quorate plan` does.
	settle func([]report.Plan)
	// daemon is the end of the log of this host's management plane; nil: it is not this host's.
	daemon func(ctx context.Context, lines int) (string, error)
	// lines is how many of the last lines of each log are wanted.
	lines int
}

// file is one of an archive.
type file struct {
	name, about string
	text        []byte
}

// contents are what an archive holds.
type contents struct {
	files []file
	// missing says what could not be read, and why.
	missing []string
}

// add adds a file without secrets.
func (c *contents) add(name, about, text string) {
	c.files = append(c.files, file{name, about, []byte(plaintext.Redact(text))})
}

// lacks notes what could not be read.
func (c *contents) lacks(what string, err error) {
	c.missing = append(c.missing, plaintext.Visible(plaintext.Shown(what+": "+err.Error())))
}

// gather reads all of a cluster. What cannot be read is noted; a cluster that is not there is an error.
func gather(ctx context.Context, from source, key client.ObjectKey, now time.Time) (contents, error) {
	seen, err := facts.See(ctx, from.client, from.host, key)
	if err != nil {
		return contents{}, err
	}
	seen = facts.WithObserved(ctx, from.client, seen)
	all := &contents{}
	f := pages.Frame{Namespace: key.Namespace, Name: key.Name, Now: now, Looked: now, Files: true, HasEtcd: len(seen.Objects.EtcdClusters) > 0}
	past, err := facts.Histories(ctx, from.client, key, seen.Objects)
	if err != nil {
		all.lacks("history", err)
	}
	cluster := facts.Describe(seen)
	redact(&cluster)
	redact(&past)
	f.View = pages.ViewStatus
	all.page(f, cluster, func(w io.Writer) error { return pages.Cluster(w, f, cluster, past) })
	f.View = pages.ViewHistory
	for _, h := range past {
		f.Etcd = strings.HasPrefix(h.Group, "EtcdCluster ")
		all.page(f, h, func(w io.Writer) error { return pages.History(w, f, h) })
	}
	f.View = pages.ViewRules
	for _, f.Etcd = range etcds(f.HasEtcd) {
		e, err := facts.Explain(ctx, from.client, key, f.Etcd)
		if err != nil {
			all.lacks("rules", err)
			continue
		}
		redact(&e)
		all.page(f, e, func(w io.Writer) error { return pages.Rules(w, f, e) })
	}
	f.View, f.Etcd = pages.ViewPlan, false
	if plans, err := facts.Plans(ctx, facts.Snapshot(from.client), from.client.Scheme(), key, nil); err != nil {
		all.lacks("plan", err)
	} else {
		from.settle(plans)
		redact(&plans)
		all.page(f, plans, func(w io.Writer) error { return pages.Plans(w, f, plans) })
	}
	if err := all.logs(ctx, from, key, cluster); err != nil {
		return contents{}, err
	}
	if err := all.assets(); err != nil {
		return contents{}, err
	}
	all.add("versions.txt", "which program wrote this", buildinfo.Get().Line("quorate")+"\n")
	all.list(key, now)
	return *all, ctx.Err()
}

// etcds are the groups whose rules are asked: false is the control plane, true the cluster's EtcdCluster.
func etcds(has bool) []bool {
	if has {
		return []bool{false, true}
	}
	return []bool{false}
}

// page adds a page and its data.
func (c *contents) page(f pages.Frame, data any, draw func(io.Writer) error) {
	var page bytes.Buffer
	text, err := command.Encode("json", data)
	if err == nil {
		err = draw(&page)
	}
	if err != nil {
		c.lacks(f.View, err)
		return
	}
	name := f.Of(f.View)
	c.add(name, "page: "+f.View, page.String())
	c.add(f.JSON(), "data of "+name, string(text))
}

// assets adds what the pages need.
func (c *contents) assets() error {
	for _, name := range []string{"app.css", "icon.svg"} {
		text, err := fs.ReadFile(pages.Assets(), name)
		if err != nil {
			return err
		}
		c.files = append(c.files, file{name, "for the pages", text})
	}
	return nil
}

// list adds what is inside, and what is not.
func (c *contents) list(key client.ObjectKey, now time.Time) {
	var b strings.Builder
	fmt.Fprintf(&b, "Cluster %s at %s, by quorate report.\n\n", key, now.UTC().Format(time.RFC3339))
	for _, f := range c.files {
		fmt.Fprintf(&b, "%-40s %8d bytes  %s\n", f.name, len(f.text), f.about)
	}
	b.WriteString("\nNot in it: specs, secrets, kubeconfigs. Tokens, keys, passwords and certificates were taken out of each text.\n")
	for _, m := range c.missing {
		b.WriteString("Not in it, since it could not be read: " + m + "\n")
	}
	c.add("CONTENTS.txt", "this list", b.String())
}
