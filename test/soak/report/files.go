package report

import (
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
	out, err := os.Create(filepath.Join(folder, name+".html"))
	if err != nil {
		return r, fmt.Errorf("writing the page: %w", err)
	}
	defer out.Close()
	if err := r.HTML(out, runs); err != nil {
		return r, err
	}
	return r, out.Close()
}

func read(file string) ([]history.Entry, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	defer in.Close()
	entries, err := history.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return entries, nil
}
