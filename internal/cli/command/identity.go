package command

import (
	"bytes"
	"fmt"
	"os"

	"filippo.io/age"
)

// ReadIdentities reads the file of --identity, and returns the text and what it says.
func ReadIdentities(path string) (text []byte, identities []age.Identity, err error) {
	if text, err = os.ReadFile(path); err != nil {
		return nil, nil, fmt.Errorf("reading --identity: %w", err)
	}
	// The error of age quotes no line.
	if identities, err = age.ParseIdentities(bytes.NewReader(text)); err != nil {
		return nil, nil, Usagef("invalid --identity %q: must be a file with identities of age, as age-keygen writes it", path)
	}
	return text, identities, nil
}
