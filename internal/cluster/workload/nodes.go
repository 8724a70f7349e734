package workload

import (
	"iter"
	"maps"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// controlPlaneLabels are on the Nodes of control planes; kubeadm writes the first, and before v1.24 the second.
var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// Mine says which Nodes may belong to the machines of a control plane, besides those with its label: a Node gets that only
// when kubeadm has done everything else. The zero value matches none.
type Mine struct {
	Names, ProviderIDs, Addresses map[string]bool
	// Format is how the machines are named, such as demo-%s, with a number in the place of %s. Whatever Node has such a name counts: it is a
	// name that no other machine may get. Empty: none does.
	Format string
}

// NormalAddress is how Addresses spells an IP address; empty when the text is none.
func NormalAddress(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	return address.Unmap().String()
}

func (m Mine) matches(n bystander) bool {
	return m.Names[n.name] || m.isNumbered(n.name) || n.providerID != "" && m.ProviderIDs[n.providerID] || n.address != "" &&
		m.Addresses[NormalAddress(n.address)]
}

// isNumbered reports whether a name is formed as the machines' are.
func (m Mine) isNumbered(name string) bool {
	before, after, formed := strings.Cut(m.Format, "%s")
	number, starts := strings.CutPrefix(name, before)
	number, ends := strings.CutSuffix(number, after)
	return formed && starts && ends && number != "" && strings.Trim(number, "0123456789") == ""
}

func (m Mine) equal(other Mine) bool {
	return m.Format == other.Format && maps.Equal(m.Names, other.Names) && maps.Equal(m.ProviderIDs, other.ProviderIDs) &&
		maps.Equal(m.Addresses, other.Addresses)
}

// bystander is a Node that belongs to no control plane, as far as is known: enough to find out later that it does.
type bystander struct {
	name, providerID, address string
	ready                     corev1.ConditionStatus
	created, readySince       int64 // seconds since 1970
}

func bystanderOf(n *corev1.Node) bystander {
	b := bystander{name: n.Name, providerID: n.Spec.ProviderID, created: n.CreationTimestamp.Unix()}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			b.address = a.Address
			break
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			b.ready, b.readySince = c.Status, c.LastTransitionTime.Unix()
		}
	}
	return b
}

// node is what the bystander's Node said of what is kept. The next change of the Node tells the rest.
func (b bystander) node() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.name, CreationTimestamp: metav1.Unix(b.created, 0)}}
	n.Spec.ProviderID = b.providerID
	if b.address != "" {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: b.address}}
	}
	if b.ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: b.ready, LastTransitionTime: metav1.Unix(b.readySince, 0)}}
	}
	return n
}

// weight is about how many bytes of memory it takes.
func (b bystander) weight() int64 {
	const strings = 256 // the structure, twice, and its place in a map
	return int64(2*len(b.name)+len(b.providerID)+len(b.address)+len(b.ready)) + strings
}

// nodeShelf holds the Nodes. A large cluster has thousands that no decision depends on, and
// one of them changes every few milliseconds: of these only a line is kept, and no event is sent.
type nodeShelf struct {
	book *book
	// mine says whose Nodes count; nil: it was not set, and all do.
	mine *Mine
	shelved
}

// shelved are Nodes by their names, those that count and the others.
type shelved struct {
	items  map[string]*corev1.Node
	others map[string]bystander
	// bytes is about how much memory all take.
	bytes int64
}

func newShelved() shelved {
	return shelved{items: map[string]*corev1.Node{}, others: map[string]bystander{}}
}

// drop takes a Node away, and reports whether it counted.
func (s *shelved) drop(name string) bool {
	n, kept := s.items[name]
	if kept {
		s.bytes -= weight(n)
		delete(s.items, name)
	}
	if b, is := s.others[name]; is {
		s.bytes -= b.weight()
		delete(s.others, name)
	}
	return kept
}

// keep puts a Node among those that count.
func (s *shelved) keep(n *corev1.Node) {
	s.drop(n.Name)
	s.items[n.Name] = n
	s.bytes += weight(n)
}

// note puts a Node among the others.
func (s *shelved) note(b bystander) {
	s.drop(b.name)
	s.others[b.name] = b
	s.bytes += b.weight()
}

func newNodeShelf(b *book) *nodeShelf { return &nodeShelf{book: b, shelved: newShelved()} }

// counts reports whether a Node is kept whole.
func (s *nodeShelf) counts(n *corev1.Node, b bystander) bool {
	for _, label := range controlPlaneLabels {
		if _, has := n.Labels[label]; has {
			return true
		}
	}
	return s.mine == nil || s.mine.matches(b)
}

// replace makes the Nodes of a list all that there are.
func (s *nodeShelf) replace(nodes iter.Seq2[*corev1.Node, error]) error {
	fresh := newShelved()
	for n, err := range nodes {
		if err != nil {
			return err
		}
		s.book.mu.Lock()
		if b := bystanderOf(n); s.counts(n, b) {
			fresh.keep(trimmedNode(n))
		} else {
			fresh.note(b)
		}
		err := s.book.fits(fresh.bytes, s.book.pods.bytes)
		s.book.mu.Unlock()
		if err != nil {
			return err
		}
	}
	s.book.mu.Lock()
	news := !maps.EqualFunc(s.items, fresh.items, same[*corev1.Node])
	if !news {
		fresh.items = s.items
	}
	s.shelved, s.book.stale = fresh, s.book.stale || news
	s.sort() // whose Nodes count may have changed since the first page
	s.book.unlock(news)
	return nil
}

func (s *nodeShelf) put(n *corev1.Node) error {
	b := bystanderOf(n)
	s.book.mu.Lock()
	old, kept := s.items[n.Name]
	news := false
	if s.counts(n, b) {
		n = trimmedNode(n)
		if news = !kept || !same(old, n); news {
			s.keep(n)
		}
	} else {
		s.note(b)
		news = kept
	}
	s.book.stale = s.book.stale || news
	err := s.book.fits(s.bytes, s.book.pods.bytes)
	s.book.unlock(news)
	return err
}

func (s *nodeShelf) remove(n *corev1.Node) {
	s.book.mu.Lock()
	kept := s.drop(n.Name)
	s.book.stale = s.book.stale || kept
	s.book.unlock(kept)
}

// own sets which Nodes count. It sends no event; the caller reads the view next.
func (s *nodeShelf) own(mine Mine) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	if s.mine != nil && s.mine.equal(mine) {
		return
	}
	s.mine = &mine
	s.sort()
}

// sort puts each Node where it belongs. The book is locked.
func (s *nodeShelf) sort() {
	for _, n := range s.items {
		if b := bystanderOf(n); !s.counts(n, b) {
			s.note(b)
			s.book.stale = true
		}
	}
	if s.mine == nil {
		return
	}
	for _, b := range s.others {
		if s.mine.matches(b) {
			s.keep(b.node())
			s.book.stale = true
		}
	}
}

// trimmedNode is a copy of what is looked at: of the conditions only Ready, without the time of its heartbeat.
func trimmedNode(n *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.Name, UID: n.UID, CreationTimestamp: n.CreationTimestamp, DeletionTimestamp: n.DeletionTimestamp, Labels: n.Labels,
	}}
	kept.Spec = corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable}
	kept.Status.Addresses, kept.Status.NodeInfo = n.Status.Addresses, n.Status.NodeInfo
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			c.LastHeartbeatTime = metav1.Time{}
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	return kept
}
