package etcd

import (
	"testing"

	"github.com/quorate/quorate/internal/core/quorum"
)

// TestBallot: who is credited with an answer counts as healthy, once.
func TestBallot(t *testing.T) {
	voters := []quorum.Voter{{ID: "a", Healthy: true}, {ID: "b"}, {ID: "c"}}
	for _, test := range []struct {
		credited              func(string) bool
		healthy, needed, left int
	}{
		{nil, 1, 2, -1},
		{func(id string) bool { return id == "b" }, 2, 2, 0},
		{func(id string) bool { return id != "b" }, 2, 2, 0},
		{func(string) bool { return true }, 3, 2, 1},
	} {
		b := NewBallot(voters, test.credited)
		if b.Voters != 3 || b.Healthy != test.healthy || b.Needed() != test.needed || b.Spare() != test.left {
			t.Errorf("%+v, %d needed, %d to spare; want %+v", b, b.Needed(), b.Spare(), test)
		}
	}
}
