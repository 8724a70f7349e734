package provider

import (
	"sync"
	"time"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// retryBuild is how long a failed build rests before it is tried again: it takes minutes of both processors.
const retryBuild = time.Minute

// etcdBuild stands in place of a version of Kubernetes for the artifacts of machines of etcd.
const etcdBuild = "etcd"

// builds has artifacts made in the background, each version once, however many machines wait for it.
type builds struct {
	ensure func(version string) (*artifacts.Set, error)
	// done is called when a build has ended.
	done func()

	mu       sync.Mutex
	versions map[string]*build
}

type build struct {
	running bool
	set     *artifacts.Set
	err     error
	ended   time.Time
}

func newBuilds(ensure func(string) (*artifacts.Set, error), done func()) *builds {
	return &builds{ensure: ensure, done: done, versions: map[string]*build{}}
}

// get returns the artifacts of a version of Kubernetes, or those of etcdBuild; or nil while they are being made; or why they cannot be had.
// The first call for a version begins to make them, and the first after retryBuild begins again what failed.
func (b *builds) get(version string) (*artifacts.Set, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.versions[version]
	switch {
	case v == nil:
		v = &build{}
		b.versions[version] = v
	case v.running || v.set != nil:
		return v.set, nil
	case time.Since(v.ended) < retryBuild:
		return nil, v.err
	}
	v.running = true
	go b.make(version, v)
	return nil, v.err
}

func (b *builds) make(version string, v *build) {
	set, err := b.ensure(version)
	b.mu.Lock()
	v.running, v.set, v.err, v.ended = false, set, err, time.Now()
	b.mu.Unlock()
	b.done()
}
