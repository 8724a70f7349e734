package contents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// NoAssertion is what SPDX says where nothing is claimed.
const NoAssertion = "NOASSERTION"

// licenceFile matches the files of a module's root that have its licence. What patents, notices and authors say is not one.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([-._].*)?$`)

// texts are parts that only this licence has, in lower case, with single blanks and without quotation marks; all must be there.
var texts = []struct {
	id    string
	parts []string
	none  []string // parts of licences that have the same text and more
}{
	{id: "Apache-2.0", parts: []string{"apache license", "version 2.0, january 2004"}},
	{id: "Apache-2.0", parts: []string{"licensed under the apache license, version 2.0"}},
	{id: "MIT", parts: []string{"permission is hereby granted, free of charge, to any person obtaining a copy",
		"the software is provided as is"}},
	{id: "BSD-3-Clause", parts: []string{"redistribution and use in source and binary forms", "endorse or promote products"},
		none: []string{"all advertising materials"}},
	{id: "BSD-2-Clause", parts: []string{"redistribution and use in source and binary forms"}, none: []string{"endorse or promote products"}},
	{id: "ISC", parts: []string{"copy, modify, and/or distribute this software for any purpose with or without fee"}},
	{id: "ISC", parts: []string{"copy, modify, and distribute this software for any purpose with or without fee"}},
	{id: "CC-BY-SA-4.0", parts: []string{"attribution-sharealike 4.0 international"}},
	{id: "MPL-2.0", parts: []string{"mozilla public license", "version 2.0"}},
}

// Recognise returns the SPDX identifiers of the licences whose text is in a file, sorted.
func Recognise(text string) []string {
	plain := strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`“”‘’*#", r)
	}), " ")
	holds := func(part string) bool { return strings.Contains(plain, part) }
	var found []string
	for _, t := range texts {
		if !slices.ContainsFunc(t.parts, func(p string) bool { return !holds(p) }) && !slices.ContainsFunc(t.none, holds) {
			found = append(found, t.id)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// licenceOf returns the licences that a folder's files state, as an SPDX expression. Where a module has several, all are taken to hold;
// where a file has a licence's name and a text that is not known, nothing is claimed.
func licenceOf(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", fmt.Errorf("looking for a licence: %w", err)
	}
	var found []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return "", fmt.Errorf("reading a licence: %w", err)
		}
		ids := Recognise(string(text))
		if len(ids) == 0 {
			return NoAssertion, nil
		}
		found = append(found, ids...)
	}
	if len(found) == 0 {
		return NoAssertion, nil
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " AND "), nil
}
