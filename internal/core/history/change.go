package history

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Change is one change of a group's spec. Kubernetes records which field manager made it, and no user.
type Change struct {
	// By is the field manager, such as kubectl-edit; empty: the object does not tell. Operation is Apply or Update.
	By        string `json:"by,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Created: the object was made with this spec.
	Created bool `json:"created,omitempty"`
	// Fields are those of the spec that changed, or, where that is not known, those that the manager sets; sorted.
	Fields []string `json:"fields,omitempty"`
}

// ChangeOf returns who changed the spec last, by an object's managed fields, and when; the zero time: they do not tell.
// changed are the fields of the spec that differ from before, sorted; none: that is not known.
func ChangeOf(managed []metav1.ManagedFieldsEntry, changed []string) (Change, time.Time) {
	var newest *metav1.ManagedFieldsEntry
	best := false
	for i := range managed {
		fields := specFields(managed[i])
		if len(fields) == 0 {
			continue
		}
		// A manager that removed a field sets it no longer: then it is the last writer.
		sets := slices.ContainsFunc(changed, func(name string) bool { return slices.Contains(fields, name) })
		if newest == nil || sets && !best || sets == best && !written(managed[i]).Before(written(*newest)) {
			newest, best = &managed[i], sets
		}
	}
	if newest == nil {
		return Change{Fields: bounded(changed)}, time.Time{}
	}
	if len(changed) == 0 {
		changed = specFields(*newest)
	}
	return Change{By: newest.Manager, Operation: string(newest.Operation), Fields: bounded(changed)}, written(*newest)
}

// written is when a manager changed something last.
func written(e metav1.ManagedFieldsEntry) time.Time {
	if e.Time == nil {
		return time.Time{}
	}
	return e.Time.UTC()
}

// specFields are the fields of the spec that a manager sets, sorted; also by the subresource scale. A status has none.
func specFields(e metav1.ManagedFieldsEntry) []string {
	if e.FieldsV1 == nil {
		return nil
	}
	var set struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &set); err != nil {
		return nil
	}
	var names []string
	for _, path := range slices.Sorted(maps.Keys(set.Spec)) {
		if name, isField := strings.CutPrefix(path, "f:"); isField {
			names = append(names, name)
		}
	}
	return names
}

// Changed are the fields in which two specs differ, sorted.
func Changed(before, after map[string]any, equal func(a, b any) bool) []string {
	names := map[string]bool{}
	for _, spec := range []map[string]any{before, after} {
		for name := range spec {
			if !equal(before[name], after[name]) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// AddChange records a change of the spec at its place among the steps. The same manager's next change of the same fields is counted.
func (r *Record) AddChange(c Change, at time.Time) {
	e := Entry{Time: at.UTC(), Change: &c}
	place := r.placeOf(e)
	if place > 0 {
		if last := &r.Entries[place-1]; last.Change != nil && last.Change.isLike(c) {
			last.repeat(e.Time)
			return
		}
	}
	r.Entries = slices.Insert(r.Entries, place, e)
	r.bound()
}

// placeOf returns the index of an entry by its time, after those of the same time.
func (r *Record) placeOf(e Entry) int {
	place := len(r.Entries)
	for place > 0 && e.Time.Before(r.Entries[place-1].Time) {
		place--
	}
	return place
}

// isLike reports whether another change is by the same manager, in the same way, of the same fields.
func (c Change) isLike(o Change) bool {
	return !c.Created && !o.Created && c.By == o.By && c.Operation == o.Operation && slices.Equal(c.Fields, o.Fields)
}

// bounded are as many fields as an entry may have.
func bounded(fields []string) []string {
	return slices.Clone(fields[:min(len(fields), mostFields)])
}
