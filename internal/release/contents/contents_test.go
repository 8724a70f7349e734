package contents

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRecognise(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"Apache":         {"   Apache License\n   Version 2.0, January 2004\n", "Apache-2.0"},
		"Apache, notice": {"// Licensed under the Apache License, Version 2.0 (the \"License\");", "Apache-2.0"},
		"MIT": {
			"Permission is hereby granted, free of charge, to any person obtaining\na copy ... THE SOFTWARE IS PROVIDED \"AS IS\"", "MIT"},
		"MIT, cut off": {"Permission is hereby granted, free of charge, to any person obtaining a copy", ""},
		"BSD-3":        {"Redistribution and use in source and binary forms ... may be used to endorse or promote products", "BSD-3-Clause"},
		"BSD-2":        {"Redistribution and use in source and\n binary forms, with or without", "BSD-2-Clause"},
		"BSD-4": {"Redistribution and use in source and binary forms ... All advertising materials ... endorse or promote products",
			""},
		"ISC": {"Permission to use, copy, modify, and/or distribute this software for any\npurpose with or without fee", "ISC"},
		"MPL": {"Mozilla Public License Version 2.0", "MPL-2.0"},
		"two in one": {"Apache License Version 2.0, January 2004 ... Redistribution and use in source and binary forms",
			"Apache-2.0 BSD-2-Clause"},
		"Apache, another":  {"Apache License Version 1.1", ""},
		"nothing of these": {"All rights reserved.", ""},
	} {
		if got := strings.Join(Recognise(c.text), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLicenceOf: what several files state holds together, and a licence that is not known is never left out of that silently.
func TestLicenceOf(t *testing.T) {
	const apache, mit = "Apache License Version 2.0, January 2004",
		"Permission is hereby granted, free of charge, to any person obtaining a copy. The software is provided 'as is'"
	for want, files := range map[string]map[string]string{
		"Apache-2.0":         {"LICENSE": apache, "PATENTS": "x", "license.go": "x"},
		"MIT":                {"license.md": mit},
		"Apache-2.0 AND MIT": {"LICENSE-APACHE": apache, "LICENCE.MIT": mit},
		NoAssertion:          {"LICENSE": apache, "COPYING": "as you please"},
	} {
		folder := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := licenceOf(folder); err != nil || got != want {
			t.Errorf("%v: %s, %v, want %s", files, got, err, want)
		}
	}
	if got, err := licenceOf(t.TempDir()); err != nil || got != NoAssertion {
		t.Errorf("without a file: %s, %v", got, err)
	}
	if _, err := licenceOf("/nowhere"); err == nil {
		t.Error("a module that is not there has a licence")
	}
}

func source(t *testing.T) Source {
	t.Helper()
	out, err := exec.Command("go", "env", "-json", "GOMODCACHE", "GOROOT").Output()
	var e struct{ GOMODCACHE, GOROOT string }
	if err := errors.Join(err, json.Unmarshal(out, &e)); err != nil {
		t.Fatal(err)
	}
	return Source{ModuleCache: e.GOMODCACHE, GoRoot: e.GOROOT, Own: "../../..", Name: "test", Version: "v0.1.0", Created: time.Unix(0, 0)}
}

// built is the smallest program of this module that has modules of others. Tests are told nothing of theirs by the linker.
var built string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "contents-")
	if err != nil {
		panic(err)
	}
	built = filepath.Join(folder, "quorate-upgrader")
	if out, err := exec.Command("go", "build", "-o", built, "../../../cmd/upgrader").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	code := m.Run()
	_ = os.RemoveAll(folder) // it is temporary
	os.Exit(code)
}

// TestList: every module that the linker recorded is listed once, with its version, licence and a reference, and the program contains it.
func TestList(t *testing.T) {
	file := built
	d, err := source(t).List([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil || len(info.Deps) == 0 {
		t.Fatalf("%+v, %v", info, err)
	}
	byName, ids := map[string]Package{}, map[string]bool{}
	for _, p := range d.Packages {
		if ids[p.ID] {
			t.Errorf("%s is there twice", p.ID)
		}
		byName[p.Name], ids[p.ID] = p, true
	}
	contained := map[string]bool{}
	for _, r := range d.Relationships {
		if r.Kind == "CONTAINS" && r.From == byName[filepath.Base(file)].ID {
			contained[r.To] = true
		}
		if r.From != documentID && !ids[r.From] || !ids[r.To] {
			t.Errorf("%+v relates to what is not listed", r)
		}
	}
	if want := len(info.Deps) + 3; len(d.Packages) != want { // the program, its own module, Go's library
		t.Errorf("%d packages, want %d", len(d.Packages), want)
	}
	for _, dep := range info.Deps {
		p := byName[dep.Path]
		if p.Version != dep.Version || p.Declared == "" || p.Declared == NoAssertion || len(p.References) != 1 || !contained[p.ID] {
			t.Errorf("%s %s is listed as %+v", dep.Path, dep.Version, p)
		}
	}
	if own := byName["github.com/quorate/quorate"]; own.Version != "v0.1.0" || own.Declared != "Apache-2.0" ||
		byName["stdlib"].Declared != "BSD-3-Clause" {
		t.Errorf("%+v, %+v", own, byName["stdlib"])
	}
}

// TestListIsTheSame: a document depends on what is listed, not on when or in which order.
func TestListIsTheSame(t *testing.T) {
	file := built
	second := filepath.Join(t.TempDir(), "another")
	raw, err := os.ReadFile(file)
	if err := errors.Join(err, os.WriteFile(second, raw, 0o755)); err != nil {
		t.Fatal(err)
	}
	var texts [][]byte
	for _, programs := range [][]string{{file, second}, {second, file}, {file}} {
		d, err := source(t).List(programs)
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("the order of programs matters")
	}
	if bytes.Equal(texts[0], texts[2]) {
		t.Error("two lists, one document")
	}
}

func TestListRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("#!/bin/true"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := source(t).List([]string{file}); err == nil {
		t.Error("what is made of nothing known is listed")
	}
	s := source(t)
	s.ModuleCache = t.TempDir()
	if _, err := s.List([]string{built}); err == nil {
		t.Error("modules that are not in the cache have licences")
	}
}

func TestEscape(t *testing.T) {
	if got := escape("github.com/NYTimes/gziphandler"); got != "github.com/!n!y!times/gziphandler" {
		t.Error(got)
	}
}
