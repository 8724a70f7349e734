package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Program returns the files that a program of this host needs to run elsewhere: itself, the loader it names, and the
// shared libraries that they link to, each under the path it has here. What a program opens by itself while
// it runs is not found.
func Program(path string) ([]File, error) {
	found := map[string]File{}
	if err := gather(path, librarySearch(), found); err != nil {
		return nil, fmt.Errorf("gathering what %s needs: %w", path, err)
	}
	files := make([]File, 0, len(found))
	for _, file := range found {
		files = append(files, file)
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	return files, nil
}

// gather adds a binary and everything it needs to found.
func gather(path string, search []string, found map[string]File) error {
	if _, known := found[path]; known {
		return nil
	}
	binary, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = binary.Close() }()
	source, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	found[path] = File{Path: path, Source: source, Mode: 0o755}
	needed, err := needs(binary, path, search)
	if err != nil {
		return err
	}
	for _, file := range needed {
		if err := gather(file, search, found); err != nil {
			return err
		}
	}
	return nil
}

// needs are the files that a binary names itself: its loader, if it has one, and its libraries.
func needs(binary *elf.File, path string, search []string) ([]string, error) {
	var files []string
	if loader := interpreter(binary); loader != "" {
		files = append(files, loader)
	}
	libraries, err := binary.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	own, err := ownSearch(binary, path)
	if err != nil {
		return nil, err
	}
	for _, library := range libraries {
		file, err := locate(library, binary, append(own, search...))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func interpreter(binary *elf.File) string {
	for _, segment := range binary.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, segment.Filesz)
		if _, err := segment.ReadAt(text, 0); err != nil {
			return ""
		}
		return strings.TrimRight(string(text), "\x00")
	}
	return ""
}

// ownSearch returns the folders that the binary itself names.
func ownSearch(binary *elf.File, path string) ([]string, error) {
	var folders []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		values, err := binary.DynString(tag)
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return nil, err
		}
		for _, value := range values {
			for _, folder := range strings.Split(value, ":") {
				folders = append(folders, strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path)).Replace(folder))
			}
		}
	}
	return folders, nil
}

// locate finds a library for the same machine as the binary: a host may have 32-bit libraries beside its own.
func locate(library string, binary *elf.File, search []string) (string, error) {
	if filepath.IsAbs(library) {
		return library, nil
	}
	for _, folder := range search {
		path := filepath.Join(folder, library)
		candidate, err := elf.Open(path)
		if err != nil {
			continue
		}
		fits := candidate.Machine == binary.Machine && candidate.Class == binary.Class
		_ = candidate.Close()
		if fits {
			return path, nil
		}
	}
	return "", fmt.Errorf("library %s is in none of %s", library, strings.Join(search, ", "))
}

// librarySearch returns the loader's default folders, and then those that the host's configuration adds. The first are
// preferred because a loader without that configuration, in an image, looks only there.
func librarySearch() []string {
	var folders []string
	for _, pattern := range []string{"/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*"} {
		matches, _ := filepath.Glob(pattern) // the only error is a bad pattern
		folders = append(folders, matches...)
	}
	folders = append(folders, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
	configured, _ := filepath.Glob("/etc/ld.so.conf.d/*.conf")
	for _, file := range append([]string{"/etc/ld.so.conf"}, configured...) {
		folders = append(folders, foldersIn(file)...)
	}
	return folders
}

func foldersIn(configuration string) []string {
	text, err := os.ReadFile(configuration)
	if err != nil {
		return nil
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
			folders = append(folders, line)
		}
	}
	return folders
}
