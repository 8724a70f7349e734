package cache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// recorder collects phases, and the last detail.
type recorder struct {
	phases []Phase
	detail string
}

func (r *recorder) take(p Progress) {
	r.phases = append(r.phases, p.Phase)
	if p.Detail != "" {
		r.detail = p.Detail
	}
}

// greeting is a product of two files, a folder and a link, that counts how often it is built.
func greeting(builds *atomic.Int32) Product {
	return Product{
		Name: "greeting", Version: "v1", Inputs: Sum("a"), Host: Sum("b"),
		Needs: []Need{{Bytes: 1}},
		Build: func(_ context.Context, w Workplace) error {
			builds.Add(1)
			w.Report("greeting %d", builds.Load())
			return errors.Join(
				os.Mkdir(filepath.Join(w.Out, "sub"), 0o755),
				os.WriteFile(filepath.Join(w.Out, "hello"), []byte("hello"), 0o755),
				os.WriteFile(filepath.Join(w.Out, "sub", "world"), []byte("world"), 0o644),
				os.Symlink("hello", filepath.Join(w.Out, "hi")),
				os.WriteFile(filepath.Join(w.Work, "scrap"), []byte("scrap"), 0o644),
			)
		},
	}
}

func open(t *testing.T, root, prebuilt string, r *recorder) *Cache {
	t.Helper()
	c, err := Open(root, prebuilt, r.take)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// empty fails if a build has left anything.
func empty(t *testing.T, root string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(root, buildingFolder))
	if err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v, %v", buildingFolder, left, err)
	}
}

func TestBuildsOnce(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	var first, second recorder
	folder, err := open(t, root, "", &first).Ensure(t.Context(), greeting(&builds))
	if err != nil {
		t.Fatal(err)
	}
	if read(t, filepath.Join(folder, "hi")) != "hello" || read(t, filepath.Join(folder, "sub", "world")) != "world" {
		t.Error("the product is not what was built")
	}
	if want := []Phase{Building, Building, Built}; !slices.Equal(first.phases, want) || first.detail != "greeting 1" {
		t.Errorf("phases %v with %q, want %v", first.phases, first.detail, want)
	}
	empty(t, root)
	again, err := open(t, root, "", &second).Ensure(t.Context(), greeting(&builds))
	if err != nil || again != folder || builds.Load() != 1 {
		t.Errorf("the second time: %s, %v, built %d times", again, err, builds.Load())
	}
	if !slices.Equal(second.phases, []Phase{Cached}) {
		t.Errorf("phases the second time %v", second.phases)
	}
}

func TestFolderNamesAllInputs(t *testing.T) {
	base := Product{Name: "a", Version: "v1", Inputs: Sum("x"), Host: Sum("y")}
	seen := map[string]string{}
	for name, change := range map[string]func(*Product){
		"nothing": func(*Product) {}, "name": func(p *Product) { p.Name = "b" }, "version": func(p *Product) { p.Version = "v2" },
		"inputs": func(p *Product) { p.Inputs = Sum("z") }, "host": func(p *Product) { p.Host = Sum("z") },
	} {
		p := base
		change(&p)
		if other, twice := seen[p.Folder()]; twice {
			t.Errorf("%s and %s give the same folder %s", name, other, p.Folder())
		}
		seen[p.Folder()] = name
	}
	if Sum("ab", "c") == Sum("a", "bc") || Sum("a") == Sum("a", "") {
		t.Error("different lists have the same digest")
	}
}

func TestDamageIsNoticedAndRepaired(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(folder string) error
		detail string
	}{
		{"other content", func(f string) error { return os.WriteFile(filepath.Join(f, "hello"), []byte("jello"), 0o755) },
			"hello has another content"},
		{"cut short", func(f string) error { return os.Truncate(filepath.Join(f, "sub", "world"), 3) }, "sub/world has 3 bytes instead of 5"},
		{"file missing", func(f string) error { return os.Remove(filepath.Join(f, "sub", "world")) }, "sub/world is missing"},
		{"file too many", func(f string) error { return os.WriteFile(filepath.Join(f, "virus"), nil, 0o755) }, "virus does not belong there"},
		{"mode", func(f string) error { return os.Chmod(filepath.Join(f, "hello"), 0o644) }, "hello has mode -rw-r--r-- instead of -rwxr-xr-x"},
		{"link", func(f string) error {
			return errors.Join(os.Remove(filepath.Join(f, "hi")), os.Symlink("sub/world", filepath.Join(f, "hi")))
		}, "hi has another content"},
		{"manifest broken", func(f string) error { return os.WriteFile(filepath.Join(f, manifestFile), []byte("{"), 0o644) },
			"reading the manifest"},
		{"manifest missing", func(f string) error { return os.Remove(filepath.Join(f, manifestFile)) }, "reading the manifest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			var builds atomic.Int32
			var r recorder
			folder, err := open(t, root, "", &recorder{}).Ensure(t.Context(), greeting(&builds))
			if err != nil {
				t.Fatal(err)
			}
			if err := test.damage(folder); err != nil {
				t.Fatal(err)
			}
			told := ""
			c, err := Open(root, "", func(p Progress) {
				r.take(p)
				if p.Phase == Damaged {
					told = p.Detail
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Ensure(t.Context(), greeting(&builds)); err != nil {
				t.Fatal(err)
			}
			if builds.Load() != 2 || !strings.Contains(told, test.detail) {
				t.Errorf("built %d times, told %q, want %q", builds.Load(), told, test.detail)
			}
			if read(t, filepath.Join(folder, "hello")) != "hello" || read(t, filepath.Join(folder, "sub", "world")) != "world" {
				t.Error("the damage was not repaired")
			}
			empty(t, root)
		})
	}
}

// A file that changes without its size and time, as a failing disk does it, is found at the next boot of the host.
func TestSilentDamageIsNoticedAfterBoot(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	c := open(t, root, "", &recorder{})
	folder, err := c.Ensure(t.Context(), greeting(&builds))
	if err != nil {
		t.Fatal(err)
	}
	hello := filepath.Join(folder, "hello")
	info, err := os.Stat(hello)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(hello, []byte("jello"), 0o755), os.Chtimes(hello, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	// The stamp of another boot is another text.
	if err := os.WriteFile(c.stampFile(folder), []byte(Sum("an earlier boot")), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ensure(t.Context(), greeting(&builds)); err != nil {
		t.Fatal(err)
	}
	if builds.Load() != 2 || read(t, hello) != "hello" {
		t.Errorf("built %d times, the file says %q", builds.Load(), read(t, hello))
	}
}

func TestVerifiesOnceAfterBoot(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	var r recorder
	c := open(t, root, "", &r)
	folder, err := c.Ensure(t.Context(), greeting(&builds))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(c.stampFile(folder)); err != nil {
		t.Fatal(err)
	}
	r.phases = nil
	for range 2 {
		if _, err := c.Ensure(t.Context(), greeting(&builds)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []Phase{Checking, Cached, Cached}; !slices.Equal(r.phases, want) {
		t.Errorf("phases %v, want %v", r.phases, want)
	}
}

// A hard link to a file, which a machine's store makes, is no damage.
func TestHardLinksAreNoDamage(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	var r recorder
	c := open(t, root, "", &r)
	folder, err := c.Ensure(t.Context(), greeting(&builds))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(root, "elsewhere")
	if err := os.Link(filepath.Join(folder, "hello"), other); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	r.phases = nil
	if _, err := c.Ensure(t.Context(), greeting(&builds)); err != nil || !slices.Equal(r.phases, []Phase{Cached}) {
		t.Errorf("phases %v, %v", r.phases, err)
	}
}

func TestTwoAtOnce(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	begun, finish := make(chan struct{}), make(chan struct{})
	p := greeting(&builds)
	build := p.Build
	p.Build = func(ctx context.Context, w Workplace) error {
		close(begun)
		<-finish
		return build(ctx, w)
	}
	waiting := make(chan struct{})
	var once sync.Once
	var second []Phase
	other, err := Open(root, "", func(p Progress) {
		second = append(second, p.Phase)
		if p.Phase == Waiting {
			once.Do(func() { close(waiting) })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	go func() {
		_, err := open(t, root, "", &recorder{}).Ensure(t.Context(), p)
		results <- err
	}()
	<-begun
	// A cache that is opened now sweeps, and must not sweep away what is being built.
	open(t, root, "", &recorder{})
	go func() {
		_, err := other.Ensure(t.Context(), p)
		results <- err
	}()
	<-waiting
	close(finish)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if builds.Load() != 1 {
		t.Errorf("built %d times", builds.Load())
	}
	if want := []Phase{Waiting, Cached}; !slices.Equal(second, want) {
		t.Errorf("the second one's phases are %v, want %v", second, want)
	}
}

func TestWaitingCanBeGivenUp(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	p := greeting(&builds)
	holder := open(t, root, "", &recorder{})
	unlock, err := holder.lock(t.Context(), p, func(Phase, string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := open(t, root, "", &recorder{}).Ensure(ctx, p); !errors.Is(err, context.DeadlineExceeded) || builds.Load() != 0 {
		t.Errorf("error %v, built %d times", err, builds.Load())
	}
}

// When this variable names a cache, the test program is a builder that never finishes: see TestInterruptedBuild.
const builderVariable = "QUORATE_TEST_BUILDER"

func TestMain(m *testing.M) {
	if root := os.Getenv(builderVariable); root != "" {
		buildForever(root)
	}
	os.Exit(m.Run())
}

func buildForever(root string) {
	var builds atomic.Int32
	p := greeting(&builds)
	build := p.Build
	p.Build = func(ctx context.Context, w Workplace) error {
		if err := build(ctx, w); err != nil {
			return err
		}
		fmt.Println("all but done")
		select {}
	}
	c, err := Open(root, "", nil)
	if err == nil {
		_, err = c.Ensure(context.Background(), p)
	}
	panic(err)
}

func TestInterruptedBuild(t *testing.T) {
	root := t.TempDir()
	builder := exec.Command(os.Args[0])
	builder.Env = append(os.Environ(), builderVariable+"="+root)
	output, err := builder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := builder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "all but done\n" {
		t.Fatalf("the builder says %q, %v", line, err)
	}
	if err := builder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = builder.Wait()
	if left, err := os.ReadDir(filepath.Join(root, buildingFolder)); err != nil || len(left) != 1 {
		t.Fatalf("an interrupted build should leave its folder: %v, %v", left, err)
	}
	var builds atomic.Int32
	c := open(t, root, "", &recorder{})
	empty(t, root)
	if c.Have(greeting(&builds)) {
		t.Fatal("what was interrupted counts as there")
	}
	folder, err := c.Ensure(t.Context(), greeting(&builds))
	if err != nil || builds.Load() != 1 || read(t, filepath.Join(folder, "hello")) != "hello" {
		t.Errorf("the next build: %v, built %d times", err, builds.Load())
	}
}

func TestFailedAndCancelledBuildsKeepNothing(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name string
		fail func(cancel func()) error
		want error
	}{
		{"failed", func(func()) error { return boom }, boom},
		{"cancelled", func(cancel func()) error { cancel(); return nil }, context.Canceled},
	} {
		root := t.TempDir()
		var builds atomic.Int32
		var r recorder
		ctx, cancel := context.WithCancel(t.Context())
		p := greeting(&builds)
		build := p.Build
		p.Build = func(ctx context.Context, w Workplace) error { return errors.Join(build(ctx, w), test.fail(cancel)) }
		c := open(t, root, "", &r)
		if _, err := c.Ensure(ctx, p); !errors.Is(err, test.want) || !strings.Contains(err.Error(), "building greeting v1: ") {
			t.Errorf("%s: %v", test.name, err)
		}
		if r.phases[len(r.phases)-1] != Failed || c.Have(p) {
			t.Errorf("%s: phases %v, there: %v", test.name, r.phases, c.Have(p))
		}
		empty(t, root)
		cancel()
	}
}

func TestNotEnoughDisk(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	p := greeting(&builds)
	p.Needs = []Need{{Bytes: 1 << 60}, {Folder: filepath.Join(root, "not", "yet", "there"), Bytes: 1 << 60}}
	c := open(t, root, "", &recorder{})
	_, err := c.Ensure(t.Context(), p)
	if !errors.Is(err, ErrDiskFull) || builds.Load() != 0 {
		t.Fatalf("error %v, built %d times", err, builds.Load())
	}
	// Both needs are on one file system and must be added up.
	want := "not enough disk space to build greeting v1: " + root + " needs 2147483648.0 GiB and has "
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %q, want %q...", err, want)
	}
	empty(t, root)
}

func TestDiskFullWhileBuilding(t *testing.T) {
	for name, fail := range map[string]func() error{
		// The kernel's own error, and that of a program that was called.
		"wrapped": func() error { return os.WriteFile("/dev/full", []byte("x"), 0o644) },
		"told":    func() error { return errors.New("go build: exit status 1: write $WORK/b001: no space left on device") },
	} {
		root := t.TempDir()
		var builds atomic.Int32
		p := greeting(&builds)
		build := p.Build
		p.Build = func(ctx context.Context, w Workplace) error { return errors.Join(build(ctx, w), fail()) }
		c := open(t, root, "", &recorder{})
		_, err := c.Ensure(t.Context(), p)
		if !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), root+" needs 1 bytes and has ") {
			t.Errorf("%s: %v", name, err)
		}
		if c.Have(p) {
			t.Errorf("%s: the product counts as there", name)
		}
		empty(t, root)
	}
}

func TestUnknownHost(t *testing.T) {
	root := t.TempDir()
	var builds atomic.Int32
	noGo := errors.New("no Go here")
	unknown := greeting(&builds)
	unknown.Host, unknown.HostErr = "", noGo
	c := open(t, root, "", &recorder{})
	if _, err := c.Ensure(t.Context(), unknown); !errors.Is(err, noGo) || builds.Load() != 0 {
		t.Fatalf("with nothing there: %v, built %d times", err, builds.Load())
	}
	folder, err := c.Ensure(t.Context(), greeting(&builds))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Ensure(t.Context(), unknown); err != nil || got != folder {
		t.Errorf("with one there: %s, %v", got, err)
	}
	other := greeting(&builds)
	other.Host = Sum("another Go")
	if got, err := c.Ensure(t.Context(), other); err != nil || got == folder || builds.Load() != 2 {
		t.Errorf("another host: %s, %v, built %d times", got, err, builds.Load())
	}
	if err := os.Truncate(filepath.Join(folder, "hello"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, other.Folder())); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ensure(t.Context(), unknown); !errors.Is(err, noGo) || !strings.Contains(err.Error(), "hello has 0 bytes") {
		t.Errorf("damaged and not to be repaired: %v", err)
	}
}

func TestPrebuilt(t *testing.T) {
	elsewhere, root := t.TempDir(), t.TempDir()
	var builds atomic.Int32
	folder, err := open(t, elsewhere, "", &recorder{}).Ensure(t.Context(), greeting(&builds))
	if err != nil {
		t.Fatal(err)
	}
	p := greeting(&builds)
	p.Host = Sum("this host is another one")
	c := open(t, root, elsewhere, &recorder{})
	if got, err := c.Ensure(t.Context(), p); err != nil || got != folder || builds.Load() != 1 {
		t.Errorf("%s, %v, built %d times", got, err, builds.Load())
	}
	newer := p
	newer.Inputs = Sum("other pins")
	if _, err := c.Ensure(t.Context(), newer); err == nil || !strings.Contains(err.Error(), elsewhere+" have no greeting v1 with the pins") {
		t.Errorf("other pins: %v", err)
	}
	if err := os.Truncate(filepath.Join(folder, "hello"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ensure(t.Context(), p); err == nil || !strings.Contains(err.Error(), "hello has 0 bytes instead of 5") ||
		builds.Load() != 1 {
		t.Errorf("damaged: %v, built %d times", err, builds.Load())
	}
	if read(t, filepath.Join(folder, "sub", "world")) != "world" {
		t.Error("somebody else's folder was changed")
	}
	if _, err := Open(root, filepath.Join(elsewhere, "nothing"), nil); err == nil || !strings.Contains(err.Error(), "must be a folder") {
		t.Errorf("a prebuilt folder that is not there: %v", err)
	}
}
