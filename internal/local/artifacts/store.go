package artifacts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// storeIfPossible returns the folder of the store, or nothing where none can be made: it only saves time.
func (m *maker) storeIfPossible(ctx context.Context, images []string) (string, error) {
	if os.Geteuid() != 0 {
		return "", nil
	}
	p := m.store(images)
	if m.cache.Prebuilt() && !m.cache.Have(p) {
		return "", nil
	}
	if p.HostErr != nil && !m.cache.Have(p) && len(images) > 0 {
		// What the host lacks was needed for the images and containerd, and these are there: imported, or made when it had that.
		p.Host, p.HostErr = cache.Sum(filepath.Base(filepath.Dir(images[0])), filepath.Base(m.folders["containerd"])), nil
	}
	folder, err := m.cache.Ensure(ctx, p)
	if errors.Is(err, errNoStore) && !errors.Is(err, ErrDiskFull) && ctx.Err() == nil {
		return "", nil
	}
	return folder, err
}

// errNoStore is wrapped where a containerd cannot unpack images here, for example because overlayfs cannot stand on the
// cache's file system. The progress has reported it.
var errNoStore = errors.New("no prepared image store can be made here")

// store returns the product of a containerd's root folder with all images.
func (m *maker) store(images []string) cache.Product {
	p := cache.Product{
		Name: "store", Version: m.version,
		Inputs: cache.Sum("store", "1", storeConfig, fmt.Sprint(importFlags)),
		Host:   cache.Sum("any"),
		Needs:  []cache.Need{{Bytes: 1000 << 20}},
	}
	p = dependOn(p, m.images())
	p = dependOn(p, m.built["containerd"])
	p.Build = func(ctx context.Context, w cache.Workplace) error {
		return unpack(ctx, w, m.folders["containerd"], images)
	}
	return p
}

// AddImages returns the set with more images, which must be files of the cache. They are in its Store too, where it has one.
func AddImages(ctx context.Context, o Options, set *Set, files []string) (*Set, error) {
	more := *set
	more.Images = append(slices.Clone(set.Images), files...)
	if set.Store == "" || len(files) == 0 {
		return &more, nil
	}
	c, err := o.openCache()
	if err != nil {
		return nil, err
	}
	p := cache.Product{
		Name: "store", Version: set.Kubernetes,
		Inputs: cache.Sum("store", "more", storeConfig, fmt.Sprint(importFlags)),
		// The names of folders in the cache tell what is in them.
		Host:  cache.Sum(inCache(append(slices.Clone(more.Images), filepath.Join(set.Machine, "containerd")))...),
		Needs: []cache.Need{{Bytes: 2000 << 20}},
		Build: func(ctx context.Context, w cache.Workplace) error { return unpack(ctx, w, set.Machine, more.Images) },
	}
	more.Store, err = c.Ensure(ctx, p)
	if errors.Is(err, errNoStore) && !errors.Is(err, ErrDiskFull) && ctx.Err() == nil {
		more.Store, err = "", nil
	}
	return &more, err
}

// inCache are files of the cache by the names of their folders and their own.
func inCache(files []string) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Join(filepath.Base(filepath.Dir(f)), filepath.Base(f))
	}
	return names
}

// unpack makes the root folder of a containerd, whose programs are in a folder, with images.
func unpack(ctx context.Context, w cache.Workplace, programs string, images []string) error {
	c, err := startContainerd(ctx, programs, w.Work)
	if err != nil {
		return errors.Join(errNoStore, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, file := range images {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.Report("unpacking %s", strings.TrimSuffix(filepath.Base(file), ".tar"))
			return c.ctr(ctx, append(slices.Clone(importFlags), file)...)
		})
	}
	err = group.Wait()
	if stopErr := c.stop(); err != nil || stopErr != nil {
		return errors.Join(errNoStore, err, stopErr)
	}
	if err := os.Remove(w.Out); err != nil {
		return fmt.Errorf("moving the store into place: %w", err)
	}
	if err := os.Rename(c.root, w.Out); err != nil {
		return fmt.Errorf("moving the store into place: %w", err)
	}
	return nil
}

// importFlags keep the kubelet from deleting an image when the disk fills up: there is no registry to get it back from.
// That CRI manages the image is not said here: CRI says so itself when it starts, and adds the image's other names.
var importFlags = []string{"images", "import", "--snapshotter", "overlayfs", "--label", "io.cri-containerd.pinned=pinned"}

// storeConfig leaves out all that is not needed to unpack images, and above all what reaches out of the given folders.
const storeConfig = `version = 3
root = %q
state = %q
disabled_plugins = [
  'io.containerd.grpc.v1.cri', 'io.containerd.cri.v1.images', 'io.containerd.cri.v1.runtime',
  'io.containerd.internal.v1.opt', 'io.containerd.internal.v1.tracing', 'io.containerd.nri.v1.nri',
  'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.devmapper',
  'io.containerd.snapshotter.v1.erofs', 'io.containerd.snapshotter.v1.native', 'io.containerd.snapshotter.v1.zfs',
]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

// containerd is one that runs for a while with folders of its own.
type containerd struct {
	folder  string // with the programs
	root    string
	state   string
	socket  string
	log     string // file
	process *exec.Cmd
	ended   chan error
}

func startContainerd(ctx context.Context, folder, work string) (*containerd, error) {
	// The name of a socket must not be longer than 107 bytes, and a cache may lie deep.
	state, err := os.MkdirTemp("", "quorate-store-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for containerd: %w", err)
	}
	c := &containerd{
		folder: folder, root: filepath.Join(work, "root"), state: state, log: filepath.Join(work, "containerd.log"),
		socket: filepath.Join(state, "c.sock"), ended: make(chan error, 1),
	}
	config := filepath.Join(work, "config.toml")
	text := fmt.Sprintf(storeConfig, c.root, filepath.Join(state, "state"), c.socket, c.socket+".ttrpc")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing containerd's configuration: %w", err), os.RemoveAll(state))
	}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making containerd's log: %w", err), os.RemoveAll(state))
	}
	defer func() { _ = log.Close() }() // containerd has its own handle
	c.process = exec.Command(filepath.Join(folder, "containerd"), "--config", config, "--log-level", "warn")
	c.process.Stdout, c.process.Stderr = log, log
	// Its mounts are its own: when it dies, however that happens, none is left. It dies with this process.
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := c.process.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting containerd: %w", err), os.RemoveAll(state))
	}
	go func() { c.ended <- c.process.Wait() }()
	if err := c.wait(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// wait returns when containerd accepts connections.
func (c *containerd) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if connection, err := net.Dial("unix", c.socket); err == nil {
			return connection.Close()
		}
		select {
		case err := <-c.ended:
			c.ended <- err
			return fmt.Errorf("containerd ended: %w: %s", errors.Join(err, errEnded), c.tail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for containerd: %w: %s", ctx.Err(), c.tail())
		case <-tick.C:
		}
	}
}

var errEnded = errors.New("before it was asked to")

func (c *containerd) ctr(ctx context.Context, arguments ...string) error {
	arguments = append([]string{"--address", c.socket, "--namespace", "k8s.io"}, arguments...)
	output, err := exec.CommandContext(ctx, filepath.Join(c.folder, "ctr"), arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(arguments[4:], " "), err, tailOf(string(output)))
	}
	return nil
}

// stop ends containerd in good order, so that its databases are complete, and removes its state.
func (c *containerd) stop() error {
	err := c.process.Process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping containerd: %w", err)
	}
	select {
	case err = <-c.ended:
	case <-time.After(30 * time.Second):
		_ = c.process.Process.Kill()
		err = errors.Join(errors.New("it did not stop within 30 s"), <-c.ended)
	}
	if err != nil {
		err = fmt.Errorf("stopping containerd: %w: %s", err, c.tail())
	}
	return errors.Join(err, os.RemoveAll(c.state))
}

// tail returns the end of the log.
func (c *containerd) tail() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return tailOf(string(text))
}

// tailOf returns the last 2 KiB of a text.
func tailOf(text string) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-2048):]
}
