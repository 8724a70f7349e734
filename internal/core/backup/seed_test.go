package backup

import (
	"maps"
	"strings"
	"testing"
)

// seedable is a backup that fits a control plane.
func seedable() (*Manifest, *Verification, Ground) {
	m := sample()
	m.Kubernetes = "v1.36.3"
	m.Fingerprints = map[string]string{"demo-ca": "aa", "demo-etcd": "bb", "demo-proxy": "cc", "demo-sa": "dd"}
	restored := Restored{Witness: m.Witnesses[0], Keys: m.Keys, Latest: 50, Snapshot: m.Snapshot}
	v := &Verification{Name: m.Name, At: m.Taken, Archive: m.Archive.Digest, Restored: restored}
	return m, v, Ground{UID: m.Cluster.UID, Kubernetes: "v1.36.3", Fingerprints: maps.Clone(m.Fingerprints)}
}

// TestRefuseSeed: a control plane is recovered from a backup of its own only, that was restored once, by the same authorities, and that
// its versions can read.
func TestRefuseSeed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Manifest, *Verification, *Ground)
		want   string
	}{
		"as it is":                     {func(*Manifest, *Verification, *Ground) {}, ""},
		"the next minor version":       {func(_ *Manifest, _ *Verification, g *Ground) { g.Kubernetes = "v1.37.2" }, ""},
		"another patch version":        {func(_ *Manifest, _ *Verification, g *Ground) { g.Kubernetes = "v1.36.1" }, ""},
		"another cluster":              {func(m *Manifest, _ *Verification, _ *Ground) { m.Cluster.UID = "other" }, "is of cluster other"},
		"not verified":                 {func(_ *Manifest, v *Verification, _ *Ground) { *v = Verification{} }, "not verified"},
		"verified as another":          {func(_ *Manifest, v *Verification, _ *Ground) { v.Name = "x" }, "not verified"},
		"another archive was verified": {func(_ *Manifest, v *Verification, _ *Ground) { v.Archive.Size++ }, "not verified"},
		"another snapshot":             {func(_ *Manifest, v *Verification, _ *Ground) { v.Restored.Snapshot.Size++ }, "not verified"},
		"another hash":                 {func(_ *Manifest, v *Verification, _ *Ground) { v.Restored.Witness.Hash++ }, "not verified"},
		"fewer keys":                   {func(_ *Manifest, v *Verification, _ *Ground) { v.Restored.Keys-- }, "not verified"},
		"truncated":                    {func(_ *Manifest, v *Verification, _ *Ground) { v.Restored.Latest = 41 }, "not verified"},
		"without an archive":           {func(m *Manifest, _ *Verification, _ *Ground) { m.Archive = nil }, "not verified"},
		"of an etcd alone":             {func(m *Manifest, _ *Verification, _ *Ground) { m.Kubernetes = "" }, "names no version"},
		"two minor versions later":     {func(_ *Manifest, _ *Verification, g *Ground) { g.Kubernetes = "v1.38.0" }, "same minor version"},
		"a minor version before":       {func(_ *Manifest, _ *Verification, g *Ground) { g.Kubernetes = "v1.35.4" }, "same minor version"},
		"another major version":        {func(_ *Manifest, _ *Verification, g *Ground) { g.Kubernetes = "v2.36.3" }, "same minor version"},
		"no version":                   {func(m *Manifest, _ *Verification, _ *Ground) { m.Kubernetes = "new" }, `kubernetes "new"`},
		"a version that is none":       {func(_ *Manifest, _ *Verification, g *Ground) { g.Kubernetes = "new" }, `version "new"`},
		"another authority":            {func(_ *Manifest, _ *Verification, g *Ground) { g.Fingerprints["demo-ca"] = "x" }, "secret demo-ca"},
		"another etcd authority":       {func(_ *Manifest, _ *Verification, g *Ground) { g.Fingerprints["demo-etcd"] = "x" }, "secret demo-etcd"},
		"another service account key":  {func(_ *Manifest, _ *Verification, g *Ground) { g.Fingerprints["demo-sa"] = "x" }, "secret demo-sa"},
		"an authority that is new":     {func(m *Manifest, _ *Verification, _ *Ground) { delete(m.Fingerprints, "demo-proxy") }, "none"},
		"no fingerprints":              {func(m *Manifest, _ *Verification, _ *Ground) { m.Fingerprints = nil }, "not known"},
		"no authorities":               {func(_ *Manifest, _ *Verification, g *Ground) { g.Fingerprints = nil }, "not known"},
	} {
		m, v, g := seedable()
		test.change(m, v, &g)
		err := m.RefuseSeed(v, g)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	m, _, g := seedable()
	if m.RefuseSeed(nil, g) == nil {
		t.Error("a backup without a proof is accepted")
	}
}

// TestRefuseSeedOfEtcd: an etcd without a control plane on its machines is recovered by the version of etcd.
func TestRefuseSeedOfEtcd(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Manifest, *Ground)
		want   string
	}{
		"as it is":                 {func(*Manifest, *Ground) {}, ""},
		"another patch version":    {func(_ *Manifest, g *Ground) { g.Etcd = "v3.6.1" }, ""},
		"the next minor version":   {func(_ *Manifest, g *Ground) { g.Etcd = "v3.7.3" }, ""},
		"two minor versions later": {func(m *Manifest, g *Ground) { m.Etcd.Version, g.Etcd = "3.5.35", "v3.7.3" }, "same minor version"},
		"a minor version before":   {func(_ *Manifest, g *Ground) { g.Etcd = "v3.5.35" }, "same minor version"},
		"another major version":    {func(_ *Manifest, g *Ground) { g.Etcd = "v4.6.16" }, "same minor version"},
		"of a control plane":       {func(m *Manifest, _ *Ground) { m.Kubernetes = "v1.36.3" }, "of a control plane"},
		"no version":               {func(m *Manifest, _ *Ground) { m.Etcd.Version = "new" }, `etcd "new"`},
		"a version that is none":   {func(_ *Manifest, g *Ground) { g.Etcd = "new" }, `version "new"`},
		"another authority":        {func(_ *Manifest, g *Ground) { g.Fingerprints["demo-etcd"] = "x" }, "secret demo-etcd"},
	} {
		m, v, g := seedable()
		m.Kubernetes, g.Kubernetes, m.Etcd.Version, g.Etcd = "", "", "3.6.16", "v3.6.16"
		test.change(m, &g)
		err := m.RefuseSeed(v, g)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestBest: the survivor with the newest term, and in it the newest entry, has all that any of them has.
func TestBest(t *testing.T) {
	for _, test := range []struct {
		all  []Survivor
		want string
	}{
		{nil, ""},
		{[]Survivor{{"a", 0, 0}}, "a"},
		{[]Survivor{{"a", 3, 90}, {"b", 4, 10}}, "b"},
		{[]Survivor{{"a", 4, 10}, {"b", 3, 90}}, "a"},
		{[]Survivor{{"a", 4, 10}, {"b", 4, 11}}, "b"},
		{[]Survivor{{"b", 4, 11}, {"a", 4, 11}}, "a"},
		{[]Survivor{{"a", 4, 11}, {"b", 4, 11}}, "a"},
	} {
		best, ok := Best(test.all)
		if best.Name != test.want || ok != (len(test.all) > 0) {
			t.Errorf("%v: %s, want %s", test.all, best.Name, test.want)
		}
	}
}
