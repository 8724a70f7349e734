package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/test/compatibility"
)

// The page with the matrix, and the heading of the section that is written.
const (
	matrixPage  = "docs/compatibility.md"
	matrixTitle = "\n## Which test runs which version\n"
)

// directive begins the line of a test's comment in which it declares what it shows, as CONTRIBUTING.md describes.
const directive = "//quorate:shows "

// shown is what one test shows of one version.
type shown struct {
	// of is kubernetes or etcd, way how a version comes about, and from the version before; empty: there is none.
	of, way, version, from string
	// test is the name by which it is run.
	test string
}

// ways are those that a test may declare, in the order of the columns.
var ways = map[string][]string{"kubernetes": {"created", "replaced", "in-place", "class"}, "etcd": {"created", "replaced", "agrees"}}

// declared is what the tests of the end-to-end package declare about themselves.
type declared struct {
	// words are versions that have a name there, such as older.
	words map[string]string
	// lives are the names by which functions are run.
	lives map[string]string
	shown []shown
}

// readDeclared reads what tests declare.
func readDeclared(root string) (declared, error) {
	d := declared{words: map[string]string{"default": artifacts.DefaultVersion}, lives: map[string]string{}}
	var tests []*ast.File
	for _, folder := range []string{"test", "internal"} {
		files, err := parseTests(filepath.Join(root, folder))
		if err != nil {
			return d, err
		}
		tests = append(tests, files...)
	}
	for _, file := range tests {
		if file.Name.Name == "e2e" {
			ast.Inspect(file, d.learn)
		}
	}
	var wrong []error
	for _, file := range tests {
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is {
				wrong = append(wrong, d.add(f))
			}
		}
	}
	return d, errors.Join(wrong...)
}

// parseTests reads the files with tests below a folder.
func parseTests(folder string) ([]*ast.File, error) {
	var files []*ast.File
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		files = append(files, file)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading tests in %s: %w", folder, err)
	}
	return files, nil
}

// named are the names in the end-to-end tests that stand for versions of Kubernetes.
var named = []string{"oldest", "older", "newer"}

// kubernetesVersion matches a version of Kubernetes.
var kubernetesVersion = regexp.MustCompile(`^v1\.\d+\.\d+$`)

// learn takes note of the names of versions and of lives.
func (d declared) learn(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if slices.Contains(named, name.Name) && len(n.Names) == len(n.Values) {
				if v := versionIn(n.Values[i]); v != "" {
					d.words[name.Name] = v
				}
			}
		}
	case *ast.CompositeLit:
		if len(n.Elts) != 2 {
			return true
		}
		name, function := valueOf(n.Elts[0], nil), n.Elts[1]
		if f, is := function.(*ast.Ident); is && name != "" {
			d.lives[f.Name] = name
		}
	}
	return true
}

// versionIn is the version of Kubernetes that an expression has in it: that of cmp.Or, where nothing else is chosen. Empty: it has none.
func versionIn(e ast.Expr) string {
	found := ""
	ast.Inspect(e, func(n ast.Node) bool {
		if literal, is := n.(*ast.BasicLit); is && kubernetesVersion.MatchString(strings.Trim(literal.Value, `"`)) {
			found = strings.Trim(literal.Value, `"`)
		}
		return true
	})
	return found
}

// add notes what a function declares. A life that names versions, and declares nothing, is an error.
func (d *declared) add(f *ast.FuncDecl) error {
	test, lives := d.lives[f.Name.Name]
	if !lives {
		test = f.Name.Name
	}
	before := len(d.shown)
	if f.Doc != nil {
		for _, c := range f.Doc.List {
			if text, is := strings.CutPrefix(c.Text, directive); is {
				if err := d.declare(test, strings.Fields(text)); err != nil {
					return fmt.Errorf("%s%s of %s: %w", directive, text, f.Name.Name, err)
				}
			}
		}
	}
	if lives && len(d.shown) == before && d.namesVersions(f.Body) {
		return fmt.Errorf("%s names versions of Kubernetes: must declare what it shows by a line %sKIND WAY VERSIONS", f.Name.Name, directive)
	}
	return nil
}

// namesVersions reports whether code uses the name of a version.
func (d declared) namesVersions(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		name, is := n.(*ast.Ident)
		found = found || is && d.words[name.Name] != ""
		return !found
	})
	return found
}

// declare notes what a test declares: a kind, a way, and versions with > between them, or each for all that are pinned.
func (d *declared) declare(test string, words []string) error {
	if len(words) != 3 || !slices.Contains(ways[words[0]], words[1]) {
		return fmt.Errorf("must be KIND WAY VERSIONS, with the ways %v of kubernetes and %v of etcd", ways["kubernetes"], ways["etcd"])
	}
	of, way := words[0], words[1]
	pinned, err := pinnedOf(of)
	if err != nil {
		return err
	}
	if words[2] == "each" {
		return d.declareEach(of, way, test, pinned)
	}
	from := ""
	for i, word := range strings.Split(words[2], ">") {
		v := word
		if named := d.words[word]; named != "" && of == "kubernetes" {
			v = named
		}
		if !slices.Contains(pinned, v) {
			return fmt.Errorf("invalid version %q: must be %s, or have a name in test/e2e", word, strings.Join(pinned, ", "))
		}
		if i > 0 || isFirst(way) {
			d.shown = append(d.shown, shown{of, way, v, from, test})
		}
		from = v
	}
	return nil
}

// isFirst reports whether a version comes about in a way that has no version before it.
func isFirst(way string) bool { return way == "created" || way == "agrees" }

// declareEach notes that a test shows all versions: of etcd each that is pinned, of Kubernetes each upgrade, and the version that it begins
// with as created.
func (d *declared) declareEach(of, way, test string, pinned []string) error {
	switch {
	case of == "kubernetes":
		for _, u := range artifacts.Upgrades() {
			if isFirst(way) {
				d.shown = append(d.shown, shown{of, way, u.From, "", test})
			} else {
				d.shown = append(d.shown, shown{of, way, u.To, u.From, test})
			}
		}
	case isFirst(way):
		for _, v := range pinned {
			d.shown = append(d.shown, shown{of, way, v, "", test})
		}
	default:
		return fmt.Errorf("invalid versions \"each\" of %s %s: must be versions with > between them", of, way)
	}
	return nil
}

// pinnedOf are the versions that artifacts are built of, the newest first.
func pinnedOf(of string) ([]string, error) {
	if of == "etcd" {
		return artifacts.EtcdVersions()
	}
	return artifacts.Versions(), nil
}

// matrix writes the section about what tests run into its page.
func matrix(root string) (page, error) {
	raw, err := os.ReadFile(filepath.Join(root, matrixPage))
	if err != nil {
		return page{}, fmt.Errorf("reading the page of the matrix: %w", err)
	}
	before, rest, found := strings.Cut(string(raw), matrixTitle)
	_, after, more := strings.Cut(rest, "\n## ")
	if !found || !more {
		return page{}, fmt.Errorf("%s has no section %q with another after it", matrixPage, strings.TrimSpace(matrixTitle))
	}
	d, err := readDeclared(root)
	if err != nil {
		return page{}, err
	}
	text, err := d.text(root)
	return page{matrixPage, before + matrixTitle + text + "\n## " + after}, err
}

// text is the section: what it is, and a table for Kubernetes and one for etcd.
func (d declared) text(root string) (string, error) {
	var b strings.Builder
	b.WriteString(`
` + "`make generate`" + ` writes this section from the pins and from what the tests declare of themselves. A name is that of ` +
		"`make e2e RUN=NAME`" + `; one that
begins with Test is run by ` + "`go test`" + `. Lives that name no version, and stand nowhere below, run with ` + artifacts.DefaultVersion +
		`. No test runs what an empty cell stands for.

| Kubernetes, kubeadm and kubelet | with it | new machines | replaced | in place | by a class |
| --- | --- | --- | --- | --- | --- |
`)
	around, err := around(root)
	if err != nil {
		return "", err
	}
	for _, v := range artifacts.Versions() {
		etcd, err := artifacts.StackedEtcd(v)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s | etcd %s, %s |%s\n", v, etcd, around, d.cells("kubernetes", v))
	}
	b.WriteString("\n| etcd on machines of its own | new machines | replaced | compared with real processes |\n| --- | --- | --- | --- |\n")
	etcds, err := artifacts.EtcdVersions()
	if err != nil {
		return "", err
	}
	for _, v := range etcds {
		fmt.Fprintf(&b, "| %s |%s\n", v, d.cells("etcd", v))
	}
	measured, err := compatibility.ReadUpgrades(filepath.Join(root, compatibility.UpgradesFile))
	if err != nil {
		return "", err
	}
	b.WriteString(`
What the upgrades of ` + "`make e2e RUN=versions`" +
		` took when they were last run, on a busy host of two cores. CONTRIBUTING.md says how to
run one and to write its line. A single machine does not serve while its API server is replaced.

`)
	b.WriteString(compatibility.Table(compatibility.Rows(compatibility.Upgrades(), measured), measured))
	return b.String(), nil
}

// pins are modules of which a version is pinned for all versions of Kubernetes, and the files that pin them.
var pins = []struct{ name, file, module string }{
	{"containerd", "artifacts/containerd/go.mod.txt", "github.com/containerd/containerd/v2"},
	{"Cluster API", "go.mod", "sigs.k8s.io/cluster-api"},
}

// around is what each version of Kubernetes is run with.
func around(root string) (string, error) {
	var all []string
	for _, p := range pins {
		raw, err := os.ReadFile(filepath.Join(root, p.file))
		if err != nil {
			return "", fmt.Errorf("reading the version of %s: %w", p.name, err)
		}
		found := regexp.MustCompile(`(?m)^(?:require )?\s*` + regexp.QuoteMeta(p.module) + ` (v\S+)`).FindSubmatch(raw)
		if found == nil {
			return "", fmt.Errorf("%s requires no %s", p.file, p.module)
		}
		all = append(all, p.name+" "+string(found[1]))
	}
	return strings.Join(all, ", "), nil
}

// cells are those of one version's line: for each way the tests, by the version that they come from.
func (d declared) cells(of, version string) string {
	line := ""
	for _, way := range ways[of] {
		byFrom := map[string][]string{}
		for _, s := range d.shown {
			if s.of == of && s.way == way && s.version == version && !slices.Contains(byFrom[s.from], s.test) {
				byFrom[s.from] = append(byFrom[s.from], s.test)
			}
		}
		var texts []string
		for _, from := range slices.Sorted(maps.Keys(byFrom)) {
			slices.Sort(byFrom[from])
			text := strings.Join(byFrom[from], ", ")
			if from != "" {
				text = "From " + from + ": " + text + "."
			}
			texts = append(texts, text)
		}
		line += strings.TrimRight(" "+strings.Join(texts, " "), " ") + " |"
	}
	return line
}
