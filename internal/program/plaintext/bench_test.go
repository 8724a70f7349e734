package plaintext

import "testing"

// A machine's log has tens of thousands of lines like this one.
func BenchmarkLines(b *testing.B) {
	line := []byte(`I1121 19:30:09.123456    1234 kubelet.go:2580] "SyncLoop (PLEG): event for pod" pod="kube-system/etcd-demo-cp-1" ` +
		`event={"ID":"0123456789abcdef","Type":"ContainerStarted","Data":"29d6f0c53d1d81d38311e0787dfa0f052b06294da09b6c92e7186336dd3e066a"}` +
		"\n")
	b.SetBytes(int64(len(line)))
	var l Lines
	for b.Loop() {
		l.Redact(line)
	}
}
