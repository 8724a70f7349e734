package cache

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// letter is a product that has a file in common with greeting, and one of its own.
func letter() Product {
	return Product{
		Name: "letter", Version: "v2", Inputs: Sum("c"), Host: Sum("b"),
		Build: func(_ context.Context, w Workplace) error {
			return errors.Join(
				os.WriteFile(filepath.Join(w.Out, "hello"), []byte("hello"), 0o755),
				os.WriteFile(filepath.Join(w.Out, "readable"), []byte("hello"), 0o644),
				os.WriteFile(filepath.Join(w.Out, "text"), []byte("text"), 0o600),
			)
		},
	}
}

// both are the products of these tests, as a host knows them.
func both(host string) []Product {
	products := []Product{greeting(new(atomic.Int32)), letter()}
	for i := range products {
		products[i].Host = Sum(host)
	}
	return products
}

// exported is a bundle of both products, made on the host "there".
func exported(t *testing.T, key ed25519.PrivateKey) []byte {
	t.Helper()
	c := open(t, t.TempDir(), "", &recorder{})
	for _, p := range both("there") {
		if _, err := c.Ensure(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	return export(t, c, both("there"), key)
}

func export(t *testing.T, c *Cache, products []Product, key ed25519.PrivateKey) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := c.Export(t.Context(), &out, Export{Products: products, Kubernetes: []string{"v1.36.3"}, Key: key}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// part is one file of a bundle.
type part struct {
	tar.Header
	text string
}

func unpack(t *testing.T, bundle []byte) []part {
	t.Helper()
	decompressed, err := zstd.NewReader(bytes.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	defer decompressed.Close()
	var parts []part
	for reader := tar.NewReader(decompressed); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part{*h, string(text)})
	}
}

func pack(t *testing.T, parts []part) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(compressed)
	for _, p := range parts {
		p.Size = int64(len(p.text))
		if err := w.WriteHeader(&p.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, p.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// products lists what is in a cache.
func products(t *testing.T, root string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "*-v*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A bundle goes to a host with another toolchain, or with none, and from there on.
func TestBundleRoundTrip(t *testing.T) {
	bundle := exported(t, nil)
	if !bytes.Equal(bundle, exported(t, nil)) {
		t.Error("the same products give other bytes")
	}
	if parts := unpack(t, bundle); len(parts) != 4 {
		t.Errorf("%d files in the bundle: want its description and 3 contents, each once", len(parts))
	}
	for name, err := range map[string]error{"another host": nil, "no toolchain": errors.New("no toolchain")} {
		root := t.TempDir()
		var r recorder
		c := open(t, root, "", &r)
		known := both("here")
		for i := range known {
			known[i].HostErr = err
			known[i].Build = func(context.Context, Workplace) error { return errors.New("it is built") }
		}
		imported, err := c.Import(t.Context(), bytes.NewReader(bundle), Import{Known: known})
		if err != nil || len(imported) != 2 {
			t.Fatalf("%s: %v, %v", name, imported, err)
		}
		empty(t, root)
		folder, err := open(t, root, "", &r).Ensure(t.Context(), known[0])
		if err != nil || read(t, filepath.Join(folder, "hi")) != "hello" || read(t, filepath.Join(folder, "sub", "world")) != "world" {
			t.Errorf("%s: %s, %v", name, folder, err)
		}
		other, err := c.Ensure(t.Context(), known[1])
		one, errOne := os.Stat(filepath.Join(folder, "hello"))
		two, errTwo := os.Stat(filepath.Join(other, "hello"))
		if err := errors.Join(err, errOne, errTwo); err != nil || !os.SameFile(one, two) || two.Mode() != 0o755 {
			t.Errorf("%s: what two products have in common is there twice: %v", name, err)
		}
		if info, err := os.Stat(filepath.Join(other, "readable")); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: the same content with another mode: %v, %v", name, info, err)
		}
		if slices.Contains(r.phases, Building) {
			t.Errorf("%s: %v", name, r.phases)
		}
		if !bytes.Equal(bundle, export(t, c, known, nil)) {
			t.Errorf("%s: what was imported is exported as something else", name)
		}
		if removed, err := c.Prune(known, nil, true); err != nil || len(removed) != 0 {
			t.Errorf("%s: prune would remove what was imported: %v, %v", name, removed, err)
		}
	}
}

// Without the mark of an import, a product of another host is not taken where one can be made.
func TestOnlyImportsAreTakenFromOtherHosts(t *testing.T) {
	c := open(t, t.TempDir(), "", &recorder{})
	if _, err := c.Ensure(t.Context(), both("there")[0]); err != nil {
		t.Fatal(err)
	}
	if c.Have(both("here")[0]) {
		t.Error("what was made by another toolchain is taken")
	}
}

func TestBundleSignature(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed := exported(t, private)
	changed := unpack(t, signed)
	changed[0].text = strings.Replace(changed[0].text, "v1.36.3", "v1.36.4", 1)
	broken := unpack(t, signed)
	broken[1].text = "no base64!"
	for name, test := range map[string]struct {
		bundle []byte
		key    ed25519.PublicKey
		want   string
	}{
		"right key":          {signed, public, ""},
		"no key asked for":   {signed, nil, ""},
		"another key":        {signed, other, "its signature is not of the given key"},
		"no signature":       {exported(t, nil), public, "it has no signature"},
		"changed":            {pack(t, changed), public, "bundle.json was changed"},
		"no readable one":    {pack(t, broken), public, "reading its signature"},
		"signature left out": {pack(t, slices.Delete(unpack(t, signed), 1, 2)), public, "it has no signature"},
	} {
		root := t.TempDir()
		_, err := open(t, root, "", &recorder{}).Import(t.Context(), bytes.NewReader(test.bundle), Import{Known: both("here"), Key: test.key})
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if there := products(t, root); (len(there) > 0) != (test.want == "") {
			t.Errorf("%s: imported %v", name, there)
		}
	}
}

// Every part of a bundle that is changed is named, and what has it is not imported.
func TestDamagedBundles(t *testing.T) {
	whole := exported(t, nil)
	names := []string{"bundle.json", "hello of greeting v1", "sub/world of greeting v1", "text of letter v2"}
	for i, name := range names {
		parts := unpack(t, whole)
		parts[i].text = "X" + parts[i].text[1:]
		refused(t, "changed "+name, pack(t, parts), name)
		parts = unpack(t, whole)
		parts[i].text += "X"
		refused(t, "longer "+name, pack(t, parts), name)
		if i > 0 {
			refused(t, "without "+name, pack(t, slices.Delete(unpack(t, whole), i, i+1)), "lacks "+name)
		}
	}
	foreign := unpack(t, whole)
	foreign[2].Name = "../escape"
	refused(t, "a foreign file", pack(t, foreign), `it has "../escape"`)
	stray := unpack(t, whole)
	stray[1].Name = contentPrefix + strings.Repeat("0", 64)
	refused(t, "a content that nobody lists", pack(t, stray), "which no product lists")
	twice := unpack(t, whole)
	refused(t, "a content twice", pack(t, slices.Insert(twice, 2, twice[1])), "or twice")
	link := unpack(t, whole)
	link[2].Typeflag, link[2].Linkname, link[2].text = tar.TypeSymlink, "/etc/passwd", ""
	refused(t, "a link for a content", pack(t, link), "does not belong there")
	for _, cut := range []int{0, 1, len(whole) / 2, len(whole) - 40} {
		refused(t, "cut short", whole[:cut], "")
	}
	refused(t, "no bundle", []byte("something else"), "")
	decompressed, err := zstd.NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	defer decompressed.Close()
	text, err := io.ReadAll(decompressed)
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	within := text[:bytes.Index(text, []byte(contentPrefix))+512+2] // two bytes of the first content
	refused(t, "cut within a content", compressed.EncodeAll(within, nil), "it is cut short")
}

func refused(t *testing.T, name string, bundle []byte, want string) {
	t.Helper()
	root := t.TempDir()
	imported, err := open(t, root, "", &recorder{}).Import(t.Context(), bytes.NewReader(bundle), Import{Known: both("here")})
	if !errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
	if there := products(t, root); len(there) == 2 || len(there) != len(imported) {
		t.Errorf("%s: it is imported: %v", name, there)
	}
	empty(t, root)
}

// What a bundle says of itself is refused before anything is written.
func TestBundleDescriptions(t *testing.T) {
	whole := exported(t, nil)
	entryOf := func(b *bundle) *entry { return &b.Products[0].Entries[0] } // hello
	linkOf := func(b *bundle) *entry { return &b.Products[0].Entries[1] }
	for want, change := range map[string]func(b *bundle){
		"its platform is plan9/386: " + Platform():                      func(b *bundle) { b.Platform = "plan9/386" },
		"its format is 2: 1 is accepted":                                func(b *bundle) { b.Format = 2 },
		"its greeting v1 is of inputs none, made by another release":    func(b *bundle) { b.Products[0].Inputs = "x" },
		"must be v1 of inputs " + Sum("a").short():                      func(b *bundle) { b.Products[0].Version = "v9" },
		"its stranger v1 is of inputs " + Sum("a").short():              func(b *bundle) { b.Products[0].Product = "stranger" },
		"it lists greeting v1 twice":                                    func(b *bundle) { b.Products = append(b.Products, b.Products[0]) },
		"the description of greeting v1 is damaged":                     func(b *bundle) { b.Products[0].Host = "../../x" },
		`"../hello" of greeting v1 is not a path within a product`:      func(b *bundle) { entryOf(b).Path = "../hello" },
		`"/hello" of greeting v1 is not a path within a product`:        func(b *bundle) { entryOf(b).Path = "/hello" },
		`"manifest.json" of greeting v1 is not a path within a product`: func(b *bundle) { entryOf(b).Path = "manifest.json" },
		`"a/../b" of greeting v1 is not a path within a product`:        func(b *bundle) { entryOf(b).Path = "a/../b" },
		`"hi/x" of greeting v1 does not lie in a folder`:                func(b *bundle) { b.Products[0].Entries[3].Path = "hi/x" },
		`"hello" of greeting v1 has mode "urwxr-xr-x"`:                  func(b *bundle) { entryOf(b).Mode = "urwxr-xr-x" },
		`"hello" of greeting v1 has mode "prw-r--r--"`:                  func(b *bundle) { entryOf(b).Mode = "prw-r--r--" },
		`"hello" of greeting v1 has no checksum`:                        func(b *bundle) { entryOf(b).Sum = "" },
		`"hi" of greeting v1 is a link to "/etc"`:                       func(b *bundle) { linkOf(b).Link = "/etc" },
		`"hi" of greeting v1 is a link to "../x"`:                       func(b *bundle) { linkOf(b).Link = "../x" },
		`"hi" of greeting v1 is a link to "sub/../hello"`:               func(b *bundle) { linkOf(b).Link = "sub/../hello" },
		`"hi" of greeting v1 is described as more than one`:             func(b *bundle) { linkOf(b).Sum = Sum("x") },
		`"hello" of greeting v1 is described as more than one`:          func(b *bundle) { entryOf(b).Link = "sub" },
		`"sub" of greeting v1 is described as more than one`:            func(b *bundle) { b.Products[0].Entries[2].Link = "hello" },
		`greeting v1 lists "hello" twice`:                               func(b *bundle) { linkOf(b).Path = "hello" },
	} {
		parts := unpack(t, whole)
		var b bundle
		if err := json.Unmarshal([]byte(parts[0].text), &b); err != nil {
			t.Fatal(err)
		}
		change(&b)
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		parts[0].text = string(text)
		refused(t, want, pack(t, parts), want)
	}
}

// What is there stays, what is damaged is replaced, and an interrupted import goes on where it was.
func TestImportOverExisting(t *testing.T) {
	bundle := exported(t, nil)
	root := t.TempDir()
	c := open(t, root, "", &recorder{})
	made, err := c.Ensure(t.Context(), both("here")[0])
	if err != nil {
		t.Fatal(err)
	}
	take := func(from io.Reader, want ...string) {
		t.Helper()
		var names []string
		imported, err := c.Import(t.Context(), from, Import{Known: both("here")})
		for _, folder := range imported {
			name, _, _ := strings.Cut(folder, "-")
			names = append(names, name)
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("imported %v, %v, want %v", names, err, want)
		}
		empty(t, root)
	}
	take(bytes.NewReader(bundle), "letter")
	take(bytes.NewReader(bundle))

	if err := os.WriteFile(filepath.Join(made, "hello"), []byte("damaged"), 0o755); err != nil {
		t.Fatal(err)
	}
	take(bytes.NewReader(bundle), "greeting")
	folder, err := c.Ensure(t.Context(), both("here")[0])
	if err != nil || read(t, filepath.Join(folder, "hello")) != "hello" {
		t.Errorf("the damaged product is still there: %s, %v", folder, err)
	}
}

// What another toolchain of this host made is the product of the bundle already: it is taken, not replaced.
func TestImportKeepsWhatIsWhole(t *testing.T) {
	root := t.TempDir()
	c := open(t, root, "", &recorder{})
	made, err := c.Ensure(t.Context(), both("there")[0])
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(made, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	imported, err := c.Import(t.Context(), bytes.NewReader(exported(t, nil)), Import{Known: both("here")})
	if err != nil || len(imported) != 1 || !strings.HasPrefix(imported[0], "letter-") {
		t.Errorf("imported %v, %v, want the letter", imported, err)
	}
	known := both("here")[0]
	known.Build = func(context.Context, Workplace) error { return errors.New("it is built") }
	folder, err := c.Ensure(t.Context(), known)
	if err != nil || folder != made {
		t.Errorf("%s, %v, want %s", folder, err, made)
	}
	if after, err := os.Stat(filepath.Join(made, "hello")); err != nil || !os.SameFile(before, after) {
		t.Errorf("what was whole is replaced: %v", err)
	}
	empty(t, root)
}

func TestInterruptedImport(t *testing.T) {
	bundle := exported(t, nil)
	root := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := Open(root, "", func(p Progress) {
		if p.Phase == Imported && p.Product == "greeting" {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Import(ctx, bytes.NewReader(bundle), Import{Known: both("here")}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	empty(t, root)
	if there := products(t, root); len(there) != 1 || !strings.Contains(there[0], "greeting-") {
		t.Errorf("there are %v", there)
	}
	if _, err := c.Import(t.Context(), bytes.NewReader(bundle), Import{Known: both("here")}); err != nil || len(products(t, root)) != 2 {
		t.Errorf("the second time: %v, %v", products(t, root), err)
	}
}

func TestExportRefuses(t *testing.T) {
	c := open(t, t.TempDir(), "", &recorder{})
	err := c.Export(t.Context(), io.Discard, Export{Products: both("there")})
	if err == nil || !strings.Contains(err.Error(), "exporting greeting v1: it is not in the cache") {
		t.Errorf("what is missing: %v", err)
	}
	folder, err := c.Ensure(t.Context(), both("there")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "hello"), []byte("hallo"), 0o755); err != nil {
		t.Fatal(err)
	}
	err = c.Export(t.Context(), io.Discard, Export{Products: both("there")[:1]})
	if err == nil || !strings.Contains(err.Error(), "greeting v1: hello: is damaged") {
		t.Errorf("what is damaged: %v", err)
	}
}

func TestImportAsksForRoom(t *testing.T) {
	whole := unpack(t, exported(t, nil))
	whole[0].text = strings.Replace(whole[0].text, `"size": 5`, `"size": 9000000000000000`, 1)
	root := t.TempDir()
	_, err := open(t, root, "", &recorder{}).Import(t.Context(), bytes.NewReader(pack(t, whole)), Import{Known: both("here")})
	if !errors.Is(err, ErrDiskFull) || len(products(t, root)) != 0 {
		t.Errorf("%v", err)
	}
}
