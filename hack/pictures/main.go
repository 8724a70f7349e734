// Command pictures draws the pictures of README.md. The picture status.svg is made from what `quorate status` printed
// (docs/pictures/status.txt). The picture rollout.svg is made from a golden file of internal/core/sim, a simulated life.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// The files that pictures are made from, and the folder that they are written to.
const (
	statusFile = "docs/pictures/status.txt"
	storyFile  = "internal/core/sim/testdata/rollout-surge-1.txt"
	folder     = "docs/pictures"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// run writes all pictures.
func run(root string) error {
	all, err := pictures(root)
	if err != nil {
		return err
	}
	for name, picture := range all {
		if err := os.WriteFile(filepath.Join(root, folder, name), []byte(picture), 0o644); err != nil {
			return fmt.Errorf("writing a picture: %w", err)
		}
	}
	return nil
}

// pictures returns all pictures by the names of their files.
func pictures(root string) (map[string]string, error) {
	status, err := os.ReadFile(filepath.Join(root, statusFile))
	if err != nil {
		return nil, fmt.Errorf("reading the output of quorate status: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(root, storyFile))
	if err != nil {
		return nil, fmt.Errorf("reading the story of a rollout: %w", err)
	}
	told, err := parseStory(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", storyFile, err)
	}
	return map[string]string{"status.svg": drawTerminal(string(status)), "rollout.svg": drawTimeline(told)}, nil
}
