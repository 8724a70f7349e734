package look

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cluster/pki"
	"github.com/quorate/quorate/internal/cluster/pki/inventory"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// podServer is an API server that runs one pod, with an end and a log of the test's choice.
type podServer struct {
	status corev1.PodStatus
	log    string
	// bare: its answers lack the pod's spec. refuse: it makes none.
	bare, refuse bool

	mu      sync.Mutex
	made    *corev1.Pod
	deleted int
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	tell := func(o any) { _ = json.NewEncoder(w).Encode(o) }
	switch {
	case r.Method == http.MethodPost && s.refuse:
		w.WriteHeader(http.StatusForbidden)
		tell(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 403, Reason: "Forbidden",
			Message: "violates PodSecurity"})
	case r.Method == http.MethodPost:
		s.made = &corev1.Pod{}
		_ = json.NewDecoder(r.Body).Decode(s.made)
		s.made.Name = s.made.GenerateName + "x"
		w.WriteHeader(http.StatusCreated)
		tell(s.made)
	case r.Method == http.MethodDelete:
		s.deleted++
		tell(s.made)
	case strings.HasSuffix(r.URL.Path, "/log"):
		_, _ = fmt.Fprint(w, s.log)
	default:
		seen := s.made.DeepCopy()
		if seen.Status = s.status; s.bare {
			seen.Spec = corev1.PodSpec{}
		}
		tell(seen)
	}
}

// TestFilesOf: what a pod on a node prints is listed; where there is no pod, or it fails, that is told. No pod is left.
func TestFilesOf(t *testing.T) {
	ca := issue(t, nil, "kubernetes", 100)
	told, err := json.Marshal(inventory.NodeFiles{Files: []inventory.NodeFile{inventory.NewNodeFile("/etc/kubernetes/pki/ca.crt",
		inventory.ClusterCA, pki.Read(ca.pem()))}})
	must(t, err)
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such image"}}}}}
	}
	done := corev1.PodStatus{Phase: corev1.PodSucceeded}
	for name, c := range map[string]struct {
		server *podServer
		change func(*clusterv1.Machine)
		want   string
	}{
		"done":       {server: &podServer{status: done, log: string(told)}, want: ""},
		"no image":   {server: &podServer{status: done}, want: "no upgrader image for v1.37.2: set key v1.37.2 of"},
		"not pulled": {server: &podServer{status: waiting("ErrImagePull")}, want: "the image up:v1.37.2 cannot be used on the node: no such"},
		"nonsense":   {server: &podServer{status: done, log: "hello"}, want: "the node's report of its files cannot be read"},
		"too much": {server: &podServer{status: done, log: strings.Repeat("x", inventory.MostNodeFiles+9)},
			want: "the node's report of its files is too long"},
		"refused":       {server: &podServer{refuse: true}, want: "no pod can be made on the node: violates PodSecurity"},
		"no containers": {server: &podServer{status: waiting("ErrImagePull"), bare: true}, want: "the image up:v1.37.2 cannot"},
		"failed":        {server: &podServer{status: corev1.PodStatus{Phase: corev1.PodFailed}}, want: "the pod on the node failed"},
		"old upgrader":  {server: &podServer{status: oldUpgrader()}, want: "does not know this look"},
		"no Node": {server: &podServer{}, change: func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "" },
			want: "the machine has no Node yet"},
	} {
		t.Run(name, func(t *testing.T) {
			served := httptest.NewServer(c.server)
			defer served.Close()
			config := &rest.Config{Host: served.URL, QPS: -1}
			config.ContentType = "application/json"
			clients, err := kubernetes.NewForConfig(config)
			must(t, err)
			n := &nodes{look: &look{objects: &facts.Objects{}}, images: upgraders.Images{Default: "up:%s"}, pods: clients}
			if name == "no image" {
				n.images.Default = ""
			}
			n.images.Reader = fake.NewClientBuilder().WithScheme(manager.Scheme()).Build()
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-1"}}
			m.Spec.Version, m.Status.NodeRef.Name = "v1.37.2", "demo-1"
			if c.change != nil {
				c.change(m)
			}
			found, err := n.filesOf(t.Context(), m)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if c.want == "" && (len(found) != 1 || found[0].Name != inventory.ClusterCA || found[0].Machine != "demo-1") {
				t.Errorf("found %+v", found)
			}
			if c.server.made != nil && c.server.deleted != 1 {
				t.Errorf("the pod was deleted %d times", c.server.deleted)
			}
		})
	}
}

// oldUpgrader is how a pod ends whose image does not know the command.
func oldUpgrader() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: usage}}}}}
}
