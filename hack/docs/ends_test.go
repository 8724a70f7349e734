package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cli/advice"
	"github.com/quorate/quorate/internal/core/plan"
)

// open are the reasons that wait for a person and that nothing but a program on a machine ends.
var open = []string{"EtcdAlarm", "EtcdDisagrees"}

// TestEnds: each reason says what ends the wait. Where the rules wait for a person, a choice, a command or a field does, and it exists.
func TestEnds(t *testing.T) {
	waiting := forPerson(t)
	for word, a := range waitsOf(t) {
		e := a.Ends
		switch {
		case (e.Open != "") != slices.Contains(open, word):
			t.Errorf("%s: is it open? %q", word, e.Open)
		case !e.ByPerson() && e.Seen == "" && e.Open == "":
			t.Errorf("%s: nothing ends it", word)
		case waiting[word] && !e.ByPerson() && e.Open == "":
			t.Errorf("%s waits for a person, and names no choice, no command and no field", word)
		case e.Seen == "" && (strings.HasPrefix(a.Do, "Nothing.") || strings.HasPrefix(a.Do, "Nothing: ")):
			t.Errorf("%s: a person does nothing, and it does not end by itself", word)
		}
		for _, c := range e.Choices {
			if !slices.Contains(plan.ChoiceKinds(), c) {
				t.Errorf("%s: quorate decide knows no %q", word, c)
			}
		}
		for _, c := range e.Commands {
			if !regexp.MustCompile(`^(quorate|kubectl) [a-z]`).MatchString(c) || strings.HasPrefix(c, "quorate decide") {
				t.Errorf("%s: invalid command %q: must be of quorate, but for decide, or of kubectl", word, c)
			}
		}
		for _, f := range e.Fields {
			if !isField(t, f) {
				t.Errorf("%s: there is no field %s", word, f)
			}
		}
	}
}

// TestChoicesEnd: each choice ends a wait, and its part of docs/decide.md names the reasons of all waits that it ends, and no others.
func TestChoicesEnd(t *testing.T) {
	page := readText(t, "docs/decide.md")
	known := waitsOf(t)
	for _, kind := range plan.ChoiceKinds() {
		_, part, found := strings.Cut(page, "\n## "+string(kind)+"\n")
		if !found {
			t.Errorf("docs/decide.md says nothing of %s", kind)
			continue
		}
		part, _, _ = strings.Cut(part, "\n## ")
		var ended, named []string
		for word, a := range known {
			if slices.Contains(a.Ends.Choices, kind) {
				ended = append(ended, word)
			}
			if strings.Contains(part, "`"+word+"`") {
				named = append(named, word)
			}
		}
		slices.Sort(ended)
		slices.Sort(named)
		if len(ended) == 0 || !slices.Equal(ended, named) {
			t.Errorf("%s ends %v, and docs/decide.md names %v", kind, ended, named)
		}
	}
}

func waitsOf(t *testing.T) map[string]advice.Advice {
	t.Helper()
	all, err := advice.Read()
	if err != nil {
		t.Fatal(err)
	}
	return all[advice.Waits]
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// forPerson are the reasons of which a rule, its reason or one of its messages says that a person is awaited.
func forPerson(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, r := range plan.Rules() {
		for _, g := range r.Gives {
			found[g.Word] = found[g.Word] || g.Verb == plan.Wait && strings.Contains(g.Says, "person")
		}
	}
	said := regexp.MustCompile(`(?m)^    Wait \([a-z ]+, (\w+).*\bperson (?:must|gives|decides)`)
	for _, match := range said.FindAllStringSubmatch(readText(t, "internal/core/plan/testdata/next.txt"), -1) {
		found[match[1]] = true
	}
	blocked := regexp.MustCompile(`Reason: "(\w+)"[^\n]*Blocked: true`)
	for _, file := range []string{"kubeadm.go", "chores.go"} {
		for _, match := range blocked.FindAllStringSubmatch(readText(t, "internal/group/observe/"+file), -1) {
			found[match[1]] = true
		}
	}
	if !found["QuorumLost"] || !found["MembersUnmatched"] || !found["KubeadmUnusable"] {
		t.Fatalf("%v", found)
	}
	return found
}

// others are the kinds of others that people write.
var others = map[string]reflect.Type{
	"Cluster": reflect.TypeFor[clusterv1.Cluster](), "Machine": reflect.TypeFor[clusterv1.Machine](),
	"Secret": reflect.TypeFor[corev1.Secret](), "ConfigMap": reflect.TypeFor[corev1.ConfigMap](), "Node": reflect.TypeFor[corev1.Node](),
}

// isField reports whether a field is one of its kind, or, without a kind, of a group.
func isField(t *testing.T, field string) bool {
	t.Helper()
	kind, path, given := strings.Cut(field, " ")
	if !given {
		kind, path = "", field
	}
	path, key, _ := strings.Cut(path, "[")
	if path == "metadata.annotations" || path == "metadata.labels" {
		return strings.Contains(key, "/")
	}
	if of, ok := others[kind]; ok {
		return hasField(of, strings.Split(path, "."))
	}
	pages := []string{strings.ToLower(kind)}
	if !given {
		pages = []string{"kubeadmcontrolplane", "controlplane", "etcdcluster"}
	}
	return slices.ContainsFunc(pages, func(page string) bool {
		return strings.Contains(readText(t, "docs/reference/"+page+".md"), "\n| `"+path+"` |")
	})
}

func hasField(of reflect.Type, path []string) bool {
	for i := range of.NumField() {
		if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name == path[0] {
			return len(path) == 1 || hasField(of.Field(i).Type, path[1:])
		}
	}
	return false
}
