package main

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestNoUpgraderByDefault: the manager runs no image with privileges that an administrator has not named.
func TestNoUpgraderByDefault(t *testing.T) {
	fs, s := pflag.NewFlagSet("manager", pflag.ContinueOnError), settings{}
	s.add(fs)
	if s.manager.UpgraderImage != "" {
		t.Errorf("the upgrader's image is %q by default", s.manager.UpgraderImage)
	}
}
