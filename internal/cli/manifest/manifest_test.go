package manifest

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

func demo() Cluster {
	return Cluster{
		Name: "demo", Namespace: "default", Kind: KubeadmControlPlane, Version: "v1.37.2", Replicas: 3,
		FailureDomains: []string{"a", "b", "c"},
	}
}

var versions = []string{"v1.37.2", "v1.36.3"}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Cluster)
		err    string // part of the error; empty: none
	}{
		{"as made", func(*Cluster) {}, ""},
		{"one", func(c *Cluster) { c.Replicas = 1 }, ""},
		{"seven", func(c *Cluster) { c.Replicas = 7 }, ""},
		{"older version", func(c *Cluster) { c.Version = "v1.36.3" }, ""},
		{"no domains", func(c *Cluster) { c.FailureDomains = nil }, ""},
		{"longest name", func(c *Cluster) { c.Name = strings.Repeat("a", 50) }, ""},
		{"even", func(c *Cluster) { c.Replicas = 4 }, `invalid --replicas "4": must be 1, 3, 5 or 7: 4 members tolerate no more failures than 3`},
		{"none", func(c *Cluster) { c.Replicas = 0 }, `invalid --replicas "0": must be 1, 3, 5 or 7`},
		{"too many", func(c *Cluster) { c.Replicas = 9 }, `invalid --replicas "9": must be 1, 3, 5 or 7`},
		{"machines", func(c *Cluster) { c.Kind = ControlPlane }, ""},
		{"machines, even", func(c *Cluster) { c.Kind, c.Replicas = ControlPlane, 2 }, `invalid --replicas "2": must be 1, 3, 5 or 7: 2 members`},
		{"unknown kind", func(c *Cluster) { c.Kind = "TalosControlPlane" },
			`invalid --kind "TalosControlPlane": must be KubeadmControlPlane or ControlPlane`},
		{"no kind", func(c *Cluster) { c.Kind = "" }, `invalid --kind ""`},
		{"negative workers", func(c *Cluster) { c.Workers = -1 }, `invalid --workers "-1": must be 0 or more`},
		{"negative parallel", func(c *Cluster) { c.MaxParallel = -1 }, `invalid --max-parallel "-1"`},
		{"unknown version", func(c *Cluster) { c.Version = "v1.30.0" }, `invalid --kubernetes-version "v1.30.0": must be v1.37.2 or v1.36.3`},
		{"in place", func(c *Cluster) { c.InPlace = controlplanev1.InPlaceOnly }, ""},
		{"unknown policy", func(c *Cluster) { c.InPlace = "Maybe" }, `invalid --in-place "Maybe": must be Never, Preferred, Only, External`},
		{"upper case", func(c *Cluster) { c.Name = "Demo" }, `invalid --name "Demo": must have lower-case letters`},
		{"dot", func(c *Cluster) { c.Name = "a.b" }, `invalid --name "a.b"`},
		{"no name", func(c *Cluster) { c.Name = "" }, `invalid --name ""`},
		{"too long", func(c *Cluster) { c.Name = strings.Repeat("a", 51) }, "must have at most 50 characters"},
		{"domain twice", func(c *Cluster) { c.FailureDomains = []string{"a", "a"} }, `invalid --failure-domains "a": must have each name once`},
		{"domain with blank", func(c *Cluster) { c.FailureDomains = []string{"a b"} }, `invalid --failure-domains "a b"`},
		{"empty domain", func(c *Cluster) { c.FailureDomains = Domains("a,,b") }, `invalid --failure-domains ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := demo()
			tt.change(&c)
			expectError(t, c.Check(versions), tt.err)
		})
	}
}

func expectError(t *testing.T, err error, part string) {
	t.Helper()
	switch {
	case part == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case part != "" && err == nil:
		t.Errorf("no error, want one with %q", part)
	case part != "" && !strings.Contains(err.Error(), part):
		t.Errorf("error %q has no %q", err, part)
	}
}

func TestDomains(t *testing.T) {
	for list, want := range map[string]string{"": "", " ": "", "c, a,b": "a b c", "x": "x"} {
		if got := strings.Join(Domains(list), " "); got != want {
			t.Errorf("Domains(%q) = %q, want %q", list, got, want)
		}
	}
}

// What is written can be read again, strictly, and means the same.
func TestWrittenIsParsed(t *testing.T) {
	for _, kind := range Kinds() {
		c := demo()
		c.Kind, c.Workers, c.MaxParallel = Kind(kind), 2, 1
		t.Run(kind, func(t *testing.T) { testWrittenIsParsed(t, c) })
	}
}

func testWrittenIsParsed(t *testing.T, c Cluster) {
	var out bytes.Buffer
	if err := Write(&out, c.Documents()); err != nil {
		t.Fatal(err)
	}
	objects, err := Parse(&out, "written")
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != len(c.Documents()) {
		t.Fatalf("%d objects were read, %d written", len(objects), len(c.Documents()))
	}
	if err := CheckObjects(objects, versions, nothingExists); err != nil {
		t.Error(err)
	}
	if keys := Clusters(objects); len(keys) != 1 || keys[0].String() != "default/demo" {
		t.Errorf("clusters are %v", keys)
	}
	if n := Machines(objects); n != 5 {
		t.Errorf("%d machines, want 3 and 2 workers", n)
	}
	if got := Versions(objects); len(got) != 1 || got[0] != "v1.37.2" {
		t.Errorf("versions are %v", got)
	}
}

func TestShape(t *testing.T) {
	c := demo()
	same := c.cluster()
	expectError(t, c.Shape(same), "")

	other := c.cluster()
	other.Spec.ControlPlaneRef.Name = "mine"
	expectError(t, c.Shape(other), "its controlPlaneRef is KubeadmControlPlane mine, not KubeadmControlPlane demo-cp")

	classy := c.cluster()
	classy.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "x"}}
	expectError(t, c.Shape(classy), "ClusterClass")
}

func nothingExists(Reference) (bool, error) { return false, nil }

// TestMachinesOnEtcd: a control plane of machines with etcd on machines of its own says that none runs on them, and is what the
// schemas accept.
func TestMachinesOnEtcd(t *testing.T) {
	c := demo()
	c.Kind, c.Etcd = ControlPlane, 3
	if err := c.Check(versions); err != nil {
		t.Fatal(err)
	}
	schemas, seen := loadSchemas(t), false
	for _, d := range c.Documents() {
		o := generic(t, d)
		for _, problem := range schemas.validate(t, o) {
			t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), problem)
		}
		if Kind(o.GetKind()) != ControlPlane {
			continue
		}
		seen = true
		management, _, _ := unstructured.NestedString(o.Object, "spec", "etcd", "management")
		name, _, _ := unstructured.NestedString(o.Object, "spec", "managedExternalEtcdRef", "name")
		if management != "None" || name != "demo-etcd" {
			t.Errorf("management is %q, the etcd cluster %q", management, name)
		}
	}
	if !seen {
		t.Error("there is no control plane")
	}
}
