package sim

import (
	"math/rand"
	"time"
)

// What is drawn of machines that hang in their bootstrap: for long enough that somebody gives them up, and not for ever, so that what runs
// on them joins late, if it can.

// hangingSalt keeps what is drawn of hanging machines apart from what else is drawn of a seed.
const hangingSalt = 0x4a46

// Hanging makes of a seed the Setup that Random makes, with machines that hang before they join. A person marks or deletes them, or wants
// another meanwhile, while the controller dies in the middle of steps.
func Hanging(seed int64) Setup {
	s := Random(seed)
	r := rand.New(rand.NewSource(seed ^ hangingSalt))
	s.MaxParallel = pick(r, 0, 1, 1)
	s.MemberAdd = pick(r, 0, 0, 2*time.Hour)
	s.Boots = map[int]time.Duration{}
	most := s.MemberAdd
	if most == 0 {
		most = 30 * time.Minute // what takes longer than is said needs no protection
	}
	for range 1 + r.Intn(3) {
		s.Boots[1+r.Intn(6)] = time.Duration(r.Int63n(int64(most - 5*time.Minute))).Truncate(time.Second)
	}
	events := s.Script
	for n := 1; n <= 6; n++ {
		if s.Boots[n] == 0 {
			continue
		}
		at := time.Duration(20+r.Intn(600)) * time.Second
		events = append(events, Event{At: at, Kind: pick(r, DeleteMachine, Mark, Change), N: pick(r, n, n, 2)})
	}
	s.Script, s.Sturdy = inOrder(events...), false
	s.Luck.CutShort, s.Luck.Repeated = pick(r, 0, 10, 40), pick(r, 0, 20)
	return s
}

// hangs: a host takes long before kubeadm runs on it, and people see that it does.
func (w *World) hangs(h *host) bool { return w.setup.Boots[h.number] > 0 && h.stage == booting }
