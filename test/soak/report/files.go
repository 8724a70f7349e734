package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/test/soak/history"
)

// Write judges the histories in files, and writes NAME.html and NAME.json into a folder.
func Write(folder, name string, seed uint64, files []string) (Report, error) {
	var runs []Run
	for _, file := range files {
		entries, err := read(file)
		if err != nil {
			return Report{}, err
		}
		runs = append(runs, Run{strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), entries})
	}
	r := Of(seed, runs)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return r, fmt.Errorf("writing the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644); err != nil {
		return r, fmt.Errorf("writing the report: %w", err)
	}
	var page bytes.Buffer
	if err := r.HTML(&page, runs); err != nil {
		return r, err
	}
	if err := os.WriteFile(filepath.Join(folder, name+".html"), page.Bytes(), 0o644); err != nil {
		return r, fmt.Errorf("writing the page: %w", err)
	}
	return r, nil
}

func read(file string) ([]history.Entry, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	entries, err := history.Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return entries, nil
}
