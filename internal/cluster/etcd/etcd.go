// Package etcd asks and changes etcd clusters member by member. It knows how a
// member is reached and how it proves who it is, what each member says of itself
// and of the others, and how a leader is moved and a member removed. It does not
// know machines or Kubernetes objects, and not what should be done: whether a
// step is safe is decided elsewhere.
package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Target is one member that can be asked.
type Target struct {
	// Name is the member's name and that of its Node. Its serving certificate must carry it:
	// a server that shows another name's certificate is not this member.
	Name string
	// Alias is another name that the certificate may carry instead, that of the member's pod for example, and by which the member
	// is addressed. It counts only as long as no target has it as its Name. Empty: none.
	Alias string
	// Dial opens a connection to the member's client port; TLS is spoken over it.
	// nil: there is no way to ask the member.
	//
	// Its errors, and those of its connections, count as the member's own, unless errors.As finds one with a method
	// WayFailed() bool that returns true. Then a server between did not answer, and nothing is known of the member. A
	// connection with a method Relayed() bool that returns true goes through others. Silence on it
	// is the member's own only where it was opened for the question, and half a second before that was given up.
	Dial func(context.Context) (net.Conn, error)
}

// Survey is what the members of one cluster say, each for itself, at one time.
type Survey struct {
	// Known: at least one voter told its list. Members is empty otherwise.
	//
	// A list that a minority told may be old. It is still Known, so that a person can be
	// shown what is left, but then it is not Agreed, and its silent members are not Healthy.
	Known bool
	// Agreed: a majority of the list's voters follow a leader and gave this very list, no
	// member that follows a leader gave another, and none belongs to another cluster. Lists are
	// the same when IDs, learner flags and peer URLs are. Names do not count, because
	// a member has none before its first start; nor do lists of members that follow no leader,
	// because such a member hears of no change.
	Agreed bool
	// Why says what is wrong: why the list is not known or not agreed, who does not answer,
	// which alarms are active. Empty: nothing is wrong.
	Why string
	// Members are those of the list, sorted by ID.
	Members []Member
	// StrayAlarms are active alarms of members that are not in the list, as sentences: for them, too, all members refuse writes.
	StrayAlarms []string
	// Downgrade is the version that the cluster may be lowered to, such as 3.5.0, as any member tells; empty: no
	// downgrade is enabled, or no member tells. Members of 3.5 do not.
	Downgrade string
}

// Member is one member of the list, and what is known of it.
type Member struct {
	// ID is etcd's.
	ID uint64
	// Name is empty until the member has started once.
	Name string
	// PeerURLs are where the other members reach it, sorted.
	PeerURLs []string
	// Learner: it has no vote yet.
	Learner bool
	// InSync: it is a learner that has so much of the log that etcd lets it vote: nine tenths of what the voters have.
	InSync bool
	// Leader: it is the one that the others follow.
	Leader bool
	// Health is Healthy when the member itself answered, follows a leader and reports no
	// error. It is Unhealthy when the member was asked and did not, or its port refused. It is Unknown when
	// there was no way to ask it, when the way failed, or when it refused our certificate. A port-forward that the API server or the kubelet
	// did not open proves nothing about etcd. NOSPACE is an alarm and no illness: such a member still votes. CORRUPT is both.
	Health plan.Health
	// Why is what keeps it from being Healthy; empty when it is.
	Why string
	// Alarms are the active ones that it raised, such as NOSPACE and CORRUPT, sorted.
	Alarms []string
	// CertificateEnd is when the serving certificate ends that the member showed as the
	// connection to it was made; zero: it was not seen.
	CertificateEnd time.Time
	// Version is that of the member's etcd, such as 3.6.16. Storage is that of the format in which it keeps its data, such as
	// 3.6.0. Empty: it did not answer, or does not report it, as 3.5 does of its storage.
	Version, Storage string
	// Size is how many bytes its data takes on its disk, and Quota how many it may take before etcd raises NOSPACE. 0: it did
	// not answer, or does not report it, as 3.5 does of its quota.
	Size, Quota int64
	// InUse is how many of these bytes its data need; the others are given back when it is defragmented.
	InUse int64
	// Term is the raft term, Applied the last entry of the log that its data contains, and Revision the revision of its keys; 0: it did not
	// answer.
	Term, Applied uint64
	Revision      int64
	// At is the name of the target that answered as this member; empty: none did.
	At string
}

// HasQuorum reports whether a majority of the voters agree on the list, and are healthy.
func (s Survey) HasQuorum() bool {
	voters, healthy := 0, 0
	for _, m := range s.Members {
		if m.Learner {
			continue
		}
		voters++
		if m.Health == plan.Healthy {
			healthy++
		}
	}
	return s.Agreed && healthy > voters/2
}

// Newest returns the voter with the newest data of those that answered, and how many these are: the one with the highest term, and of these
// the one with the most entries. backup.Best chooses by the same.
func (s Survey) Newest() (newest Member, answered int) {
	for _, m := range s.Members {
		if m.At == "" || m.Learner {
			continue
		}
		further := cmp.Or(cmp.Compare(m.Term, newest.Term), cmp.Compare(m.Applied, newest.Applied), cmp.Compare(newest.At, m.At))
		if answered == 0 || further > 0 {
			newest = m
		}
		answered++
	}
	return newest, answered
}

// FormatID writes a member's ID as etcd's own tools do, in hexadecimal.
func FormatID(id uint64) string { return strconv.FormatUint(id, 16) }

// ParseID reads what FormatID wrote.
func ParseID(s string) (uint64, error) {
	id, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("member ID %q: want 1 to 16 hexadecimal digits", s)
	}
	return id, nil
}

// Cluster keeps one client for each member of one etcd cluster. Its methods may be called at the same time.
type Cluster struct {
	mu      sync.Mutex
	tls     *tls.Config
	members map[string]*member
	// targets are those of the last survey, by name, and whether there is a way to ask each. It is not changed any more.
	targets atomic.Pointer[map[string]bool]
	// silences are of the targets that did not answer their last question in time, by name.
	silences map[string]*silence
	ends     ends
}

// Open returns a Cluster whose members are asked with these credentials: the roots
// that sign members' certificates, and a client certificate. ServerName is
// ignored. Nothing is connected yet.
func Open(credentials *tls.Config) *Cluster {
	return &Cluster{tls: credentials, members: map[string]*member{}, silences: map[string]*silence{}}
}

// Use replaces the credentials. Where they are others than before, all
// connections are closed, and made again when they are needed.
func (c *Cluster) Use(credentials *tls.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tls == credentials {
		return
	}
	c.tls = credentials
	c.closeAll()
}

// Close has all connections closed, and does not wait for that. A Cluster may be used again after it.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeAll()
}

func (c *Cluster) closeAll() {
	for name, m := range c.members {
		go m.close()
		delete(c.members, name)
	}
	for name := range c.silences {
		c.forgetSilence(name)
	}
}
