package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/program/untrusted"
)

const largeCluster = 5000

// largeNode is a Node as clouds make them: 25 labels, 12 annotations, 10 conditions, 50 images; 13 KB.
func largeNode(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("ip-10-%d-%d-12.eu-central-1.compute.internal", i/250, i%250), UID: "0f3e2d1c-0000-4000-8000-000000000000",
		CreationTimestamp: metav1.Now(), Labels: map[string]string{}, Annotations: map[string]string{}, ResourceVersion: strconv.Itoa(i + 1),
	}}
	if i < 3 {
		n.Labels[controlPlaneLabels[0]] = ""
	}
	for j := range 25 {
		n.Labels[fmt.Sprintf("topology.example.com/some-label-name-%d", j)] = fmt.Sprintf("value-%d-%d", i, j)
	}
	for j := range 12 {
		n.Annotations[fmt.Sprintf("annotation.example.com/name-%d", j)] = strings.Repeat("v", 80) + strconv.Itoa(i)
	}
	n.Spec.ProviderID = fmt.Sprintf("aws:///eu-central-1a/i-%017d", i)
	n.Status.Capacity = corev1.ResourceList{}
	for _, k := range []corev1.ResourceName{"cpu", "memory", "pods", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi",
		"attachable-volumes-aws-ebs"} {
		n.Status.Capacity[k] = resource.MustParse("123456789")
	}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for j := range 9 {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprintf("Cond%d", j)),
			Status: "True", Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"})
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250)},
		{Type: corev1.NodeHostName, Address: n.Name}}
	for j := range 50 {
		n.Status.Images = append(n.Status.Images,
			corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", j, i),
				fmt.Sprintf("registry.example.com/team/image-%d:v1.%d", j, i)}, SizeBytes: 12345678})
	}
	return n
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// processTime is how long this process has used a processor so far.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLargeClusterAtRest lists 5,000 Nodes and reports what is kept of them, with a view.
func BenchmarkLargeClusterAtRest(b *testing.B) {
	var kept uint64
	for b.Loop() {
		before := liveHeap()
		book := newBook(untrusted.Bounds{}.WithDefaults(), func() {})
		book.nodes.own(Mine{Names: map[string]bool{"a": true}})
		nodes := func(yield func(*corev1.Node, error) bool) {
			for i := range largeCluster {
				if !yield(largeNode(i), nil) {
					return
				}
			}
		}
		if err := book.nodes.replace(nodes); err != nil {
			b.Fatal(err)
		}
		v := book.read()
		kept = liveHeap() - before
		if len(v.Nodes) != 3 {
			b.Fatalf("%d Nodes in the view", len(v.Nodes))
		}
		runtime.KeepAlive(book)
	}
	b.ReportMetric(float64(kept)/1e6, "MB-kept")
	b.ReportMetric(0, "ns/op")
}

// frames are a watch's events for workers' Nodes, as an API server sends them with protobuf.
func frames(b *testing.B) [][]byte {
	b.Helper()
	var out [][]byte
	encoder := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)
	for i := range 200 {
		var object, event bytes.Buffer
		if err := encoder.Encode(largeNode(10+i), &object); err != nil {
			b.Fatal(err)
		}
		e := &metav1.WatchEvent{Type: "MODIFIED"}
		e.Object.Raw = object.Bytes()
		if err := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme).Encode(e, &event); err != nil {
			b.Fatal(err)
		}
		size := event.Len()
		out = append(out, append([]byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}, event.Bytes()...))
	}
	return out
}

// BenchmarkWorkerChange takes in changes of workers' Nodes from a watch over TLS. The reported time is that of a
// processor, the server's part of it included, for a minute of 100 changes a second.
func BenchmarkWorkerChange(b *testing.B) {
	events := frames(b)
	total := b.N
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "true" {
			_ = json.NewEncoder(w).Encode(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}})
			return
		}
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		for i := range total {
			_, _ = w.Write(events[i%len(events)])
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	api, err := newAPI(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, time.Hour,
		untrusted.Bounds{Minute: 1 << 50}.WithDefaults(), untrusted.NewMeter(untrusted.Bounds{Minute: 1 << 50}))
	if err != nil {
		b.Fatal(err)
	}
	defer api.close()
	told := 0
	book := newBook(untrusted.Bounds{}.WithDefaults(), func() { told++ })
	book.nodes.own(Mine{Names: map[string]bool{"a": true}})
	feed := api.nodes(book)
	seconds := int64(600)
	stream, err := feed.ask(context.Background(), metav1.ListOptions{ResourceVersion: "1", TimeoutSeconds: &seconds})
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	b.ResetTimer()
	begun := processTime()
	if err := feed.consume(stream); err != nil {
		b.Fatal(err)
	}
	used := processTime() - begun
	if told != 0 || len(book.nodes.others) != min(total, len(events)) {
		b.Fatalf("%d Nodes known, told %d times", len(book.nodes.others), told)
	}
	b.ReportMetric(used.Seconds()/float64(b.N)*6000, "cpu-s/min")
}
