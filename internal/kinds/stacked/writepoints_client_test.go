package stacked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/group/observe"
)

// An outcome is what becomes of one write.
type outcome int

const (
	// done is what every other write is.
	done outcome = iota
	// fails: it is not done, and an error is returned.
	fails
	// unanswered: it is done, and an error is returned nevertheless.
	unanswered
	// dies: it is done, and the process ends before it learns of that.
	dies
	// stale: it is done, and what is read next is as it was before.
	stale
)

var outcomeNames = map[outcome]string{fails: "fails", unanswered: "answer lost", dies: "process dies", stale: "stale reads"}

// How long reads stay stale: for so many turns, unless there are none for so long.
const (
	staleTurns = 4
	staleTime  = 5 * time.Second
)

// uncached are the kinds that the manager's client always reads from the API server.
var uncached = []string{"Secret", "ConfigMap"}

var (
	errNoAnswer = errors.New("the connection was lost")
	errDead     = errors.New("the process is dead")
)

// A write is what one request to an API server, or to etcd, changes.
type write struct{ kind, verb, change string }

// A writer passes the controller's requests on, and disturbs one of its writes.
type writer struct {
	*world
	// at is the number of the write to be disturbed, from 0, and outcome what becomes of it.
	at      int
	outcome outcome
	writes  []write
	// onWrite is called after each write that was done.
	onWrite func(write)
	// old is the cache as it was before the write, oldKind the kind that is read from it, and
	// oldMembers and oldFiles are the answers of etcd and of the workload cluster then.
	old        client.Client
	oldKind    string
	oldMembers []etcd.Member
	oldFiles   *kubeadm.Behind
	staleTurns int
	staleUntil time.Time
}

// start makes a new controller, as after a restart, whose writes pass through the writer.
func (d *writer) start() {
	d.fresh()
	d.use(interceptor.NewClient(d.client, d.functions()))
	d.r.APIReader, d.r.Workload, d.r.Quorums, d.r.Kubeadm, d.r.Kind = d.client, d, d, d, New()
}

// fresh lets everything be read as it is.
func (d *writer) fresh() { d.old, d.oldKind, d.oldMembers, d.oldFiles = nil, "", nil, nil }

// isStale reports whether something is read as it was before.
func (d *writer) isStale() bool { return d.old != nil || d.oldMembers != nil || d.oldFiles != nil }

// age lets stale reads end in time.
func (d *writer) age() {
	if d.isStale() && (d.staleTurns == 0 || !time.Now().Before(d.staleUntil)) {
		d.fresh()
	}
}

func (d *writer) functions() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return d.readFrom(c, o).Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return d.readFrom(c, list).List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return d.write("Create", "", o, func(o client.Object) error { return c.Create(ctx, o, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return d.write("Update", "", o, func(o client.Object) error { return c.Update(ctx, o, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return d.write("Delete", "", o, func(o client.Object) error { return c.Delete(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			return d.write("Patch", changesOf(o, p), o, func(o client.Object) error { return c.Patch(ctx, o, p, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption) error {
			return d.write("Patch", changesOf(o, p), o, func(o client.Object) error { return c.SubResource(sub).Patch(ctx, o, p, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			options ...client.SubResourceUpdateOption) error {
			return d.write("Update", sub, o, func(o client.Object) error { return c.SubResource(sub).Update(ctx, o, options...) })
		},
	}
}

// readFrom returns where an object is read from.
func (d *writer) readFrom(now client.Client, o any) client.Client {
	if d.old == nil || d.kindOf(o) != d.oldKind {
		return now
	}
	return d.old
}

func (d *writer) kindOf(o any) string {
	gvk, err := apiutil.GVKForObject(o.(runtime.Object), d.client.Scheme())
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.TrimSuffix(gvk.Kind, "List")
}

// write passes one write of an object on. What is not answered does not fill the object in.
func (d *writer) write(verb, change string, o client.Object, pass func(client.Object) error) error {
	gvk, err := apiutil.GVKForObject(o, d.client.Scheme())
	if err != nil {
		return err
	}
	asked := o
	if len(d.writes) == d.at && d.outcome == unanswered {
		asked = o.DeepCopyObject().(client.Object)
	}
	return d.do(write{gvk.Kind, verb, change}, func() { d.old, d.oldKind = d.copyOfObjects(), gvk.Kind }, func() error { return pass(asked) })
}

// do passes one write on, or disturbs it. freeze lets the next reads be stale.
func (d *writer) do(w write, freeze func(), pass func() error) error {
	hit := len(d.writes) == d.at
	d.writes = append(d.writes, w)
	if hit && d.outcome == fails {
		return errNoAnswer
	}
	if hit && d.outcome == stale {
		freeze()
		d.staleTurns, d.staleUntil = staleTurns, time.Now().Add(staleTime)
	}
	if err := pass(); err != nil {
		return err
	}
	if d.onWrite != nil {
		d.onWrite(w)
	}
	switch {
	case hit && d.outcome == unanswered:
		return errNoAnswer
	case hit && d.outcome == dies:
		panic(errDead)
	}
	return nil
}

// Of implements Quorums.
func (d *writer) Of(context.Context, *clusterv1.Cluster) (observe.Quorum, error) { return d, nil }

// Survey implements Quorum.
func (d *writer) Survey(ctx context.Context, targets []etcd.Target) etcd.Survey {
	if d.oldMembers == nil {
		return d.world.Survey(ctx, targets)
	}
	now := d.members
	d.members = d.oldMembers
	defer func() { d.members = now }()
	return d.world.Survey(ctx, targets)
}

// MoveLeader implements Quorum.
func (d *writer) MoveLeader(ctx context.Context, targets []etcd.Target, to uint64) error {
	return d.do(write{"etcd", "MoveLeader", ""}, d.freezeMembers, func() error { return d.world.MoveLeader(ctx, targets, to) })
}

// AddPlaceholder implements Quorum.
func (d *writer) AddPlaceholder(ctx context.Context, targets []etcd.Target) error {
	return d.do(write{"etcd", "AddPlaceholder", ""}, d.freezeMembers, func() error { return d.world.AddPlaceholder(ctx, targets) })
}

// RemoveMember implements Quorum.
func (d *writer) RemoveMember(ctx context.Context, targets []etcd.Target, id uint64) error {
	return d.do(write{"etcd", "RemoveMember", ""}, d.freezeMembers, func() error { return d.world.RemoveMember(ctx, targets, id) })
}

func (d *writer) freezeMembers() { d.oldMembers = slices.Clone(d.members) }

// Behind implements observe.KubeadmFiles.
func (d *writer) Behind(ctx context.Context, cluster *clusterv1.Cluster, want kubeadm.Wanted) (kubeadm.Behind, error) {
	if d.oldFiles != nil {
		return *d.oldFiles, nil
	}
	return d.world.Behind(ctx, cluster, want)
}

// Write implements observe.KubeadmFiles.
func (d *writer) Write(ctx context.Context, cluster *clusterv1.Cluster, want kubeadm.Wanted, chore string) error {
	return d.do(write{"workload cluster", "Write" + chore, ""}, d.freezeFiles,
		func() error { return d.world.Write(ctx, cluster, want, chore) })
}

func (d *writer) freezeFiles() {
	d.oldFiles = &kubeadm.Behind{Permissions: d.permissions, Config: d.config, Addons: d.addons}
}

// changesOf says what a patch changes: the annotations by their last part, all else by its place.
func changesOf(o client.Object, p client.Patch) string {
	text, err := p.Data(o)
	if err != nil {
		return err.Error()
	}
	var fields map[string]map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err.Error()
	}
	var all []string
	for _, place := range slices.Sorted(maps.Keys(fields)) {
		if place != "metadata" {
			all = append(all, place)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(fields[place])) {
			switch values, _ := fields[place][name].(map[string]any); name {
			case "resourceVersion", "uid":
			case "annotations":
				for _, key := range slices.Sorted(maps.Keys(values)) {
					all = append(all, key[strings.LastIndex(key, "/")+1:])
				}
				if values == nil {
					all = append(all, fmt.Sprint(name, " removed"))
				}
			default:
				all = append(all, name)
			}
		}
	}
	return strings.Join(all, ", ")
}
