package version

import "testing"

// FuzzParse: what is read is written so that it is read as the same, and any two versions have one order.
func FuzzParse(f *testing.F) {
	for _, seed := range [][2]string{
		{"v1.36.3", "1.36.3-rc.0+build"}, {"v1.36.0-alpha.1", "v1.36.0-alpha.beta"}, {"v1.36.0-1", "v1.36.0-01"},
		{"v1.2", "v65536.0.0"}, {"v1.0.0-99999999999999999999", "v1.0.0-1"}, {"v-1.0.0", "v1.0.0--"}, {"", "v"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		a, err := Parse(first)
		if err != nil {
			return
		}
		if again, err := Parse(a.String()); err != nil || again != a {
			t.Errorf("%q is %+v, written %s, read again %+v, %v", first, a, a, again, err)
		}
		b, err := Parse(second)
		if err != nil {
			return
		}
		if Compare(a, b) != -Compare(b, a) || CompareMinor(a, b) != -CompareMinor(b, a) {
			t.Errorf("%s and %s: %d one way, %d the other", a, b, Compare(a, b), Compare(b, a))
		}
		if c := CompareMinor(a, b); c != 0 && Compare(a, b) != c {
			t.Errorf("%s and %s: the minor versions say %d, all %d", a, b, c, Compare(a, b))
		}
	})
}
