package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityIsTested: each test that SECURITY.md names exists, and each of its sentences about who can do what names one, or says what
// cannot be prevented.
func TestSecurityIsTested(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	section, _, found := strings.Cut(string(text), "## What counts")
	_, section, begins := strings.Cut(section, "## Who can do what")
	if !found || !begins {
		t.Fatal("SECURITY.md has no section on who can do what")
	}
	tests := testNames(t)
	name := regexp.MustCompile("`(Test[A-Za-z]+)`")
	named := 0
	for _, point := range strings.Split(section, "\n- ")[1:] {
		point, _, _ = strings.Cut(point, "\n\n")
		all := name.FindAllStringSubmatch(point, -1)
		if len(all) == 0 && !admits.MatchString(point) {
			t.Errorf("no test is named: %s", point)
		}
		for _, one := range all {
			named++
			if !tests[one[1]] {
				t.Errorf("there is no test %s: %s", one[1], point)
			}
		}
	}
	if named < 20 {
		t.Errorf("%d tests are named: this test looks at the wrong place", named)
	}
}

// admits matches sentences that say what somebody can do, or has.
var admits = regexp.MustCompile("^(A tenant can|The administrator can|Root on a control plane node has)")

// testNames are the names of all tests of the tree.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, one := range declared.FindAllStringSubmatch(string(text), -1) {
			found[one[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
