//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settling is how long what follows the end of an update may take: pods become ready, and the service is taken away.
const settling = 3 * time.Minute

// lacking asks until the answer is empty, and returns the last one if that does not happen.
func (s *killScene) lacking(missing func() string) []string {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		why := missing()
		if why == "" {
			return nil
		}
		if time.Since(began) > settling {
			return []string{why}
		}
	}
}

// judge says what is not as it must be after an update.
func (s *killScene) judge(machine string) []string {
	wrong := s.common(machine)
	wrong = append(wrong, s.lacking(func() string { return s.kubeletRuns(machine, burst(s.number)) })...)
	return append(wrong, s.lacking(func() string { return s.leftovers(s.killerOf(machine), true) })...)
}

// common says what is not as it must be after any end: the cluster is healthy and the same as before, with all data, and what runs on the
// node is what its files say.
func (s *killScene) common(machine string) []string {
	var wrong []string
	for _, missing := range []func() string{
		s.quorumOf(s.t, s.name, s.replicas),
		s.healthy(s.t, s.name, s.replicas),
		func() string { return s.schedulable(machine) },
		func() string { return s.serves(s.killerOf(machine), machine) },
		func() string { return s.leftovers(s.killerOf(machine), false) },
		s.dataThere,
	} {
		wrong = append(wrong, s.lacking(missing)...)
	}
	if now := s.identities(); !slices.Equal(s.uids, now) {
		wrong = append(wrong, fmt.Sprintf("Machines and Nodes were %v and are %v", s.uids, now))
	}
	return wrong
}

// dataThere says which of what was written before updates is lost.
func (s *killScene) dataThere() string {
	all, err := s.cluster.CoreV1().ConfigMaps("default").List(context.Background(), listAll)
	if err != nil {
		return err.Error()
	}
	there := map[string]bool{}
	for i := range all.Items {
		there[all.Items[i].Name] = true
	}
	for n := 1; n <= s.number; n++ {
		if !there[s.marker(n)] {
			return "what was written is lost: " + s.marker(n)
		}
	}
	return ""
}

// schedulable says so if a node is cordoned, or remembers that it was.
func (s *killScene) schedulable(machine string) string {
	n, err := s.cluster.CoreV1().Nodes().Get(context.Background(), machine, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if _, cordoned := n.Annotations["upgrade.cluster.x-k8s.io/cordoned-by"]; n.Spec.Unschedulable || cordoned {
		return fmt.Sprintf("node %s is unschedulable: %v, annotations %v", machine, n.Spec.Unschedulable, n.Annotations)
	}
	return ""
}

// kubeletRuns says so if the kubelet itself does not run with the configuration of an update.
func (s *killScene) kubeletRuns(machine string, want int) string {
	data, err := s.cluster.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + machine + "/proxy/configz").DoRaw(context.Background())
	if err != nil {
		return err.Error()
	}
	var said struct {
		Config map[string]any `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return err.Error()
	}
	if got := fmt.Sprint(said.Config[eventBurst]); got != fmt.Sprint(want) {
		return fmt.Sprintf("the kubelet runs with %s %s, want %d", eventBurst, got, want)
	}
	return ""
}

// serves says so if the node's API server does not show the certificate that lies on the node.
func (s *killScene) serves(k *killer, machine string) string {
	n, err := s.cluster.CoreV1().Nodes().Get(context.Background(), machine, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	text, err := os.ReadFile(k.root + "/etc/kubernetes/pki/apiserver.crt")
	if err != nil {
		return err.Error()
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "the node's apiserver.crt is no certificate"
	}
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second},
			Config: &tls.Config{InsecureSkipVerify: true}} // what it shows is compared
		conn, err := dialer.Dial("tcp", net.JoinHostPort(a.Address, "6443"))
		if err != nil {
			return err.Error()
		}
		defer func() { _ = conn.Close() }()
		if shown := conn.(*tls.Conn).ConnectionState().PeerCertificates; !bytes.Equal(shown[0].Raw, block.Bytes) {
			return "the API server shows another certificate than the node's file has"
		}
		return ""
	}
	return "node " + machine + " has no address"
}

// leftovers are files of the upgrader's that an update left on the node; done: it ended with all as wanted, so that the backup is not
// needed.
func (s *killScene) leftovers(k *killer, done bool) string {
	var left []string
	for _, dir := range []string{"/etc/kubernetes", "/etc/systemd/system", "/usr/bin", "/usr/local/bin", "/opt/quorate"} {
		err := filepath.WalkDir(k.root+dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.Contains(d.Name(), "quorate-upgrade") {
				left = append(left, strings.TrimPrefix(path, k.root))
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return err.Error()
		}
	}
	if entries, err := os.ReadDir(k.root + "/var/lib/quorate-upgrade"); done {
		if err != nil || len(entries) != 1 {
			left = append(left, fmt.Sprintf("/var/lib/quorate-upgrade %v %v", entries, err))
		}
	}
	slices.Sort(left)
	return strings.Join(left, ", ")
}

// damaged is the name under which damage hides etcd's data.
const damaged = "member-of-before"

// damage has no etcd read its data: a file is where the folder was, which the running one keeps open until it is ended.
func (s *killScene) damage(k *killer) {
	member := k.root + "/var/lib/etcd/member"
	if err := errors.Join(os.Rename(member, filepath.Join(filepath.Dir(member), damaged)), os.WriteFile(member, nil, 0o600)); err != nil {
		s.t.Error(err)
	}
}

// keptAside says so if the data that snapshots replaced are not kept, each once.
func (s *killScene) keptAside(k *killer) []string {
	found, err := filepath.Glob(k.root + "/var/lib/etcd.before-restore*/" + damaged)
	if err != nil || len(found) != s.restored {
		return []string{fmt.Sprintf("the data of before are kept in %v, %v", found, err)}
	}
	return nil
}
