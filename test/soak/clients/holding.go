package clients

import (
	"sync"

	"github.com/quorate/quorate/test/soak/history"
)

// holding is the time for which a client believes that it holds the lease.
type holding struct {
	load *Load
	name string

	mu         sync.Mutex
	begin      int64
	ever, over bool
}

func (h *holding) began() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.begin, h.ever = h.load.record.Now(), true
	}
}

// ended records the time, once.
func (h *holding) ended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ever && !h.over {
		h.load.record.Write(history.Entry{Kind: history.Hold, Client: h.name, Object: lease, Begin: h.begin, End: h.load.record.Now(),
			Outcome: history.OK})
	}
	h.over = true
}

// was reports whether the client held the lease.
func (h *holding) was() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ever
}
