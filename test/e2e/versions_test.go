//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// A cell is one way from a version of Kubernetes to another.
type cell struct {
	from, to string
	machines int // of the control plane
	workers  int
	inPlace  bool
}

func (c cell) way() string {
	if c.inPlace {
		return "in place"
	}
	return "rolled"
}

// name is that of the cluster: it tells where a failure is from.
func (c cell) name() string {
	way := map[bool]string{true: "place", false: "roll"}[c.inPlace]
	return fmt.Sprintf("%s%d-%s", way, c.machines, strings.ReplaceAll(strings.TrimPrefix(c.to, "v"), ".", "-"))
}

// cells are three machines and a worker that are replaced, and three, and one and a worker, that are changed in place, for each pinned
// version and the one before it, be it of the same minor version; for FROM and TO only, where those are given.
func cells() []cell {
	pinned := artifacts.Versions()
	slices.Reverse(pinned)
	if os.Getenv("QUORATE_E2E_FROM")+os.Getenv("QUORATE_E2E_TO") != "" {
		pinned = []string{older, newer}
	}
	var all []cell
	for i, to := range pinned[1:] {
		from := pinned[i]
		all = append(all, cell{from, to, 3, 1, false}, cell{from, to, 3, 0, true}, cell{from, to, 1, 1, true})
	}
	return all
}

// versions: clusters go from each version to the next, replaced and in place, under a client that writes. It prints a line for each way.
//
//quorate:shows kubernetes created each
//quorate:shows kubernetes replaced each
//quorate:shows kubernetes in-place each
func versions(t *testing.T, e *environment) {
	matrix := []string{"FIGURE from | to | way | machines + workers | seconds | failed writes | longest gap, s | lost | etcd"}
	for _, c := range cells() {
		t.Run(c.name(), func(t *testing.T) {
			e.quorate(t, "artifacts", "build", c.from, c.to) // the plane would build them too, for minutes in the middle
			e.up(t, c.name(), "--replicas", strconv.Itoa(c.machines), "--workers", strconv.Itoa(c.workers), "--kubernetes-version", c.from)
			before := e.etcdOf(t, c.name())
			machines := uids(e.machineObjects(t, c.name()))
			var took time.Duration
			client, lost := e.underWrites(t, c.name(), func() {
				args := []string{"--kubernetes-version", c.to}
				if c.inPlace {
					args = append(args, "--in-place=Only")
				}
				took = e.up(t, c.name(), args...)
				eventually(t, "all voters", patience, e.quorumOf(t, c.name(), c.machines))
				eventually(t, "all nodes healthy", patience, e.healthy(t, c.name(), c.machines+c.workers))
			})
			checkGap(t, client.gap, c.machines)
			e.isVersion(t, c.name(), c.to)
			e.servicesServe(t, c.name())
			eventually(t, "all nodes healthy", patience, e.healthy(t, c.name(), c.machines+c.workers)) // CoreDNS is replaced last
			if stay := slices.Equal(machines, uids(e.machineObjects(t, c.name()))); stay != c.inPlace {
				t.Errorf("the machines are the same: %t, and the way is %s", stay, c.way())
			}
			matrix = append(matrix, fmt.Sprintf("FIGURE %s | %s | %s | %d + %d | %.1f | %d of %d | %.1f | %d | %s -> %s",
				c.from, c.to, c.way(), c.machines, c.workers, took.Seconds(), client.failed, client.tried, client.gap.Seconds(), lost, before, e.etcdOf(t, c.name())))
			e.takeDown(t, c.name())
		})
	}
	t.Log(strings.Join(matrix, "\n"))
}

// etcdOf returns the tags of the images of a cluster's stacked etcd, each once.
func (e *environment) etcdOf(t *testing.T, name string) string {
	t.Helper()
	c, _ := e.workload(t, name)
	pods, err := c.CoreV1().Pods(metav1.NamespaceSystem).List(context.Background(), metav1.ListOptions{LabelSelector: "component=etcd"})
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, p := range pods.Items {
		tags = append(tags, tagOf(p.Spec.Containers[0]))
	}
	slices.Sort(tags)
	return strings.Join(slices.Compact(tags), ", ")
}

func tagOf(c corev1.Container) string {
	_, tag, _ := strings.Cut(c.Image, ":")
	return tag
}
