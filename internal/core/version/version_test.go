package version

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"v1.36.3":                "v1.36.3",
		"1.36.3":                 "v1.36.3",
		"v1.37.0-alpha.1":        "v1.37.0-alpha.1",
		"v1.36.3+build.5":        "v1.36.3",
		"v1.36.3-rc.0+build-5.6": "v1.36.3-rc.0",
	} {
		v, err := Parse(text)
		if err != nil || v.String() != want {
			t.Errorf("Parse(%q) = %s, %v, want %s", text, v, err, want)
		}
	}
	for _, text := range []string{"", "v1.36", "1.36.3.4", "v1.x.3", "v1.36.-1", "v1.36.3-", "latest", "vv1.36.3", "v1.36.99999999"} {
		if v, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %s, want an error", text, v)
		} else if want := `version "` + text + `" is not one like v1.36.3`; err.Error() != want {
			t.Errorf("Parse(%q): %v, want %s", text, err, want)
		}
	}
}

// TestCompare: each is before all that follow it.
func TestCompare(t *testing.T) {
	order := []string{
		"v0.99.0", "v1.28.9", "v1.29.0-alpha", "v1.29.0-alpha.1", "v1.29.0-alpha.2", "v1.29.0-alpha.10",
		"v1.29.0-alpha.b", "v1.29.0-beta.0", "v1.29.0-rc.0", "v1.29.0", "v1.29.1", "v1.29.10",
		"v1.36.3-eks-1-36-9", "v1.36.3-eks-1-36-10", "v1.36.3-gke.90", "v1.36.3-gke.100", "v1.36.3", "v2.0.0",
	}
	for i, a := range order {
		for j, b := range order {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := Compare(must(t, a), must(t, b)); got != want {
				t.Errorf("Compare(%s, %s) = %d, want %d", a, b, got, want)
			}
		}
	}
	if got := CompareMinor(must(t, "v1.36.3"), must(t, "v1.36.0-rc.1")); got != 0 {
		t.Errorf("CompareMinor of the same minor = %d", got)
	}
}

func TestLearners(t *testing.T) {
	for text, want := range map[string]bool{"v1.28.15": false, "v1.29.0": true, "v1.36.3": true, "v2.1.0": true} {
		if got := must(t, text).Learners(); got != want {
			t.Errorf("%s: Learners() = %t, want %t", text, got, want)
		}
	}
}

func TestVerifiesPulls(t *testing.T) {
	for text, want := range map[string]bool{"v1.34.9": false, "v1.35.0": true, "v1.36.3": true, "v2.1.0": true} {
		if got := must(t, text).VerifiesPulls(); got != want {
			t.Errorf("%s: VerifiesPulls() = %t, want %t", text, got, want)
		}
	}
}

func TestIsBuildOf(t *testing.T) {
	for _, test := range []struct {
		said, version string
		want          bool
	}{
		{"v1.36.3", "v1.36.3", true},
		{"v1.36.3-eks-1", "v1.36.3", true},
		{"v1.36.3-eks-b9c9ed7", "v1.36.3", true},
		{"v1.36.3+k3s1", "v1.36.3", true},
		{"v1.36.3-gke.100", "v1.36.3", true},
		{"v1.36.30", "v1.36.3", false},
		{"v1.36.2", "v1.36.3", false},
		{"", "v1.36.3", false},
		{"", "", true},
		{"-eks-1", "", false},
		{"v1.36.3-rc.1", "v1.36.3", false},
		{"v1.36.3-alpha.2", "v1.36.3", false},
		{"v1.36.3-beta", "v1.36.3", false},
		{"v1.36.3", "v1.36.3-rc.1", false},
		// The tag of EKS-D's images names the release, and its programs name the commit.
		{"v1.36.3-eks-b9c9ed7", "v1.36.3-eks-1-36-5", true},
		{"v1.36.3-eks-1-36-5", "v1.36.3-eks-1-36-5", true},
		{"v1.36.2-eks-b9c9ed7", "v1.36.3-eks-1-36-5", false},
		{"v1.36.3-eks-1-36-4", "v1.36.3-eks-1-36-5", false},
		{"v1.36.3", "v1.36.3-eks-1-36-5", false},
		// Other distributions' programs say the whole version.
		{"v1.36.3+k3s1", "v1.36.3+k3s1", true},
		{"v1.36.3+k3s2", "v1.36.3+k3s1", false},
		{"v1.36.3+rke2r1", "v1.36.3+rke2r1", true},
		{"v1.36.3+vmware.1", "v1.36.3+vmware.1", true},
		{"v1.36.3+vmware.1-fips.1", "v1.36.3+vmware.1-fips.1", true},
		{"v1.36.3+vmware.2", "v1.36.3+vmware.1", false},
		{"v1.36.3-gke.100", "v1.36.3-gke.100", true},
		{"v1.36.3-gke.1000", "v1.36.3-gke.100", false},
		{"v1.36.3-gke.100", "v1.36.3-eks-1-36-5", false},
	} {
		if IsBuildOf(test.said, test.version) != test.want {
			t.Errorf("%s is a build of %s: %t", test.said, test.version, !test.want)
		}
	}
}

// TestRelease: the builds of one release have no order among each other that kubeadm heeds, and neither has the release.
func TestRelease(t *testing.T) {
	for text, want := range map[string]string{
		"v1.36.3": "v1.36.3", "v1.36.3-eks-1-36-5": "v1.36.3", "v1.36.3-gke.100": "v1.36.3", "v1.36.3+k3s1": "v1.36.3",
		"v1.36.3-rc.1": "v1.36.3-rc.1", "v1.37.0-alpha.1": "v1.37.0-alpha.1", "v1.36.3-alphabet": "v1.36.3",
	} {
		if got := must(t, text).Release().String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func must(t *testing.T, text string) Version {
	t.Helper()
	v, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
