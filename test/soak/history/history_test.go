package history

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// TestReadsWhatWasWritten: also where the last line was cut off, but not where one in the middle is broken.
func TestReadsWhatWasWritten(t *testing.T) {
	want := []Entry{
		{Kind: Swap, Client: "w-1", Object: "cas-1", Begin: 5, End: 9, Outcome: OK, Expected: 3, Value: "w-1:1", Revision: 4},
		{Kind: List, Client: "r", Begin: 10, End: 11, Outcome: OK, Revision: 4, Items: []Item{{"cas-1", "w-1:1", 4}}},
	}
	var file bytes.Buffer
	r := NewRecorder(&file)
	for _, e := range want {
		r.Write(e)
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	whole := file.String()
	for _, text := range []string{whole, whole + `{"kind":"sw`} {
		if got, err := Read(strings.NewReader(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, %v", got, err)
		}
	}
	if got, err := Read(strings.NewReader("{\n" + whole)); err == nil {
		t.Errorf("a broken line was skipped: %+v", got)
	}
	if _, err := Read(strings.NewReader("")); err == nil {
		t.Error("an empty history was read")
	}
}
