package history

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// MaxBytes is how long an encoded record is at most.
const MaxBytes = 64 << 10

// Encode writes a record as JSON, without its oldest entries where it would be too long.
func (r Record) Encode() string {
	r.Entries = slices.Clone(r.Entries)
	if r.Entries == nil {
		r.Entries = []Entry{}
	}
	for {
		encoded, err := json.Marshal(r)
		switch {
		case err != nil: // a time that JSON cannot tell, which no clock shows
			return "{}"
		case len(encoded) <= MaxBytes || len(r.Entries) == 0:
			return string(encoded)
		}
		r.Entries = r.Entries[1:]
	}
}

// Decode reads an encoded record. One that cannot be read begins again, with a note of that time which says so.
func Decode(text string, now time.Time) Record {
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Record{Entries: []Entry{{Time: now.UTC(), Note: "what was recorded before could not be read: " + reason(err)}}}
	}
	r.Entries = slices.DeleteFunc(r.Entries,
		func(e Entry) bool { return e.Step == "" && e.Change == nil && e.Approval == nil && e.Note == "" })
	r.bound()
	return r
}

// reason is why a record could not be read, without quoting it.
func reason(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return "the field " + wrong.Field + " is of another type"
	}
	return "it is not JSON"
}
