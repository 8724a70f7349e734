package workload

import (
	"iter"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// controlPlaneLabels are on the Nodes of control planes; kubeadm writes the first, and before v1.24 the second.
var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// Mine says which Nodes may belong to the machines of a control plane, besides those with its label: a Node gets that only
// when kubeadm has done everything else. The zero value matches none.
type Mine struct {
	Names, ProviderIDs, Addresses map[string]bool
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
	return m.Names[n.name] || n.providerID != "" && m.ProviderIDs[n.providerID] || n.address != "" && m.Addresses[NormalAddress(n.address)]
}

func (m Mine) equal(other Mine) bool {
	return maps.Equal(m.Names, other.Names) && maps.Equal(m.ProviderIDs, other.ProviderIDs) && maps.Equal(m.Addresses, other.Addresses)
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

// nodeShelf holds the Nodes. A large cluster has thousands that no decision depends on, and
// one of them changes every few milliseconds: of these only a line is kept, and nobody is told.
type nodeShelf struct {
	book *book
	// mine says whose Nodes count; nil: nobody has said it, and all do.
	mine   *Mine
	items  map[string]*corev1.Node
	others map[string]bystander
}

func newNodeShelf(b *book) *nodeShelf {
	return &nodeShelf{book: b, items: map[string]*corev1.Node{}, others: map[string]bystander{}}
}

// counts reports whether a Node is kept whole.
func (s *nodeShelf) counts(n *corev1.Node, b bystander) bool {
	for _, label := range controlPlaneLabels {
		if _, has := n.Labels[label]; has {
			return true
		}
	}
	return s.mine == nil || s.mine.matches(b)
}

// replace makes the Nodes of all pages all that there are.
func (s *nodeShelf) replace(pages iter.Seq2[[]*corev1.Node, error]) error {
	items, others := map[string]*corev1.Node{}, map[string]bystander{}
	for nodes, err := range pages {
		if err != nil {
			return err
		}
		s.book.mu.Lock()
		for _, n := range nodes {
			if b := bystanderOf(n); s.counts(n, b) {
				items[n.Name] = trimmedNode(n)
			} else {
				others[n.Name] = b
			}
		}
		s.book.mu.Unlock()
	}
	s.book.mu.Lock()
	news := !maps.EqualFunc(s.items, items, same[*corev1.Node])
	s.others = others
	if news {
		s.items, s.book.stale = items, true
	}
	s.sort() // whose Nodes count may have changed since the first page
	s.book.unlock(news)
	return nil
}

func (s *nodeShelf) put(n *corev1.Node) {
	b := bystanderOf(n)
	s.book.mu.Lock()
	old, kept := s.items[n.Name]
	news := false
	if s.counts(n, b) {
		n = trimmedNode(n)
		delete(s.others, n.Name)
		if news = !kept || !same(old, n); news {
			s.items[n.Name] = n
		}
	} else {
		delete(s.items, n.Name)
		s.others[n.Name], news = b, kept
	}
	s.book.stale = s.book.stale || news
	s.book.unlock(news)
}

func (s *nodeShelf) remove(n *corev1.Node) {
	s.book.mu.Lock()
	_, kept := s.items[n.Name]
	delete(s.items, n.Name)
	delete(s.others, n.Name)
	s.book.stale = s.book.stale || kept
	s.book.unlock(kept)
}

// own says whose Nodes count from now on. Nobody is told of what that changes: who says it looks next.
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
	for name, n := range s.items {
		if b := bystanderOf(n); !s.counts(n, b) {
			delete(s.items, name)
			s.others[name], s.book.stale = b, true
		}
	}
	if s.mine == nil {
		return
	}
	for name, b := range s.others {
		if s.mine.matches(b) {
			delete(s.others, name)
			s.items[name], s.book.stale = b.node(), true
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
