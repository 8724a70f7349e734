package embed

import "testing"

// TestUpgraderImage: the environment names the image that its machines import, since the manager has no default.
func TestUpgraderImage(t *testing.T) {
	if got := options(Environment{}, nil).UpgraderImage; got != "quorate.io/upgrader:%s" {
		t.Errorf("the upgrader's image is %q", got)
	}
}
