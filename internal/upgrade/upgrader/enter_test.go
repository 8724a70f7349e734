package upgrader

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFirstThreadStays: no goroutine that moves its thread into the node ever has the first thread of the process, by whose root the node
// sees the image's files.
func TestFirstThreadStays(t *testing.T) {
	const many = 200
	var began, ended sync.WaitGroup
	began.Add(many)
	release := make(chan struct{})
	for range many {
		ended.Go(func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				t.Error("a goroutine runs on the first thread")
			}
			began.Done()
			<-release // with its thread, so that all that there are get their turn
		})
	}
	began.Wait()
	close(release)
	ended.Wait()
}
