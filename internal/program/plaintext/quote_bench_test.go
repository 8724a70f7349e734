package plaintext

import "testing"

// Each turn of each group shows some dozens of texts like this one.
func BenchmarkQuote(b *testing.B) {
	const text = "* Machine demo-cp-1: waiting for etcd member demo-cp-2 to answer (silent for 12s; replaced after 5m); 3 of 3 voters " +
		"healthy, 1 more may fail"
	b.ReportAllocs()
	for b.Loop() {
		Quote(text, 1024)
	}
}
