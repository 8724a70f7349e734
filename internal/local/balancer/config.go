package balancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

// Config is what one endpoint does. It is the content of the configuration file, as JSON.
type Config struct {
	// Listen is the endpoint's address and port. It cannot change while the process runs.
	Listen string `json:"listen"`
	// Backends are the servers; their order has no meaning.
	Backends []Backend `json:"backends"`
}

// Backend is one server: of the API, or whatever its probe asks.
type Backend struct {
	// Name is unique among the backends.
	Name string `json:"name"`
	// Address is an IP address and port.
	Address string `json:"address"`
	// Probe is the URL that says with 200 that the server is ready. Defaults to /readyz at Address, over TLS.
	Probe string `json:"probe,omitempty"`
	// Draining: it gets no new connections while another backend can take them, and those it has are
	// closed within DrainGrace.
	Draining bool `json:"draining,omitempty"`
}

// Validate says what is wrong with a configuration: each error names the field, its value and what it should be.
func (c Config) Validate() error {
	var errs []error
	if a, err := netip.ParseAddrPort(c.Listen); err != nil || a.Addr().Is4In6() {
		errs = append(errs, fmt.Errorf("listen is %q, want an IP address and port", c.Listen))
	}
	seen := map[string]bool{}
	for i, b := range c.Backends {
		errs = append(errs, b.validate(fmt.Sprintf("backends[%d]", i))...)
		if seen[b.Name] {
			errs = append(errs, fmt.Errorf("backends[%d].name is %q, which another backend has, want each name once", i, b.Name))
		}
		seen[b.Name] = true
	}
	return errors.Join(errs...)
}

// validate says what is wrong with the backend at a path of a configuration.
func (b Backend) validate(at string) []error {
	var errs []error
	if b.Name == "" {
		errs = append(errs, fmt.Errorf("%s.name is empty, want a name", at))
	}
	if _, err := netip.ParseAddrPort(b.Address); err != nil {
		errs = append(errs, fmt.Errorf("%s.address is %q, want an IP address and port", at, b.Address))
	}
	if b.Probe != "" && !isHTTP(b.Probe) {
		errs = append(errs, fmt.Errorf("%s.probe is %q, want a URL with http or https", at, b.Probe))
	}
	return errs
}

// isHTTP reports whether a text is a URL with a host, to be asked over HTTP or HTTPS.
func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// Save writes the configuration so that a reader sees the old or the new one, never a part.
func (c Config) Save(path string) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("writing endpoint configuration %s: %w", path, err)
	}
	return writeJSON(path, c)
}

// Load reads a configuration file.
func Load(path string) (Config, error) {
	var c Config
	if err := readJSON(path, &c); err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("endpoint configuration %s: %w", path, err)
	}
	return c, nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// writeJSON replaces the file by renaming: readers in other processes never see half a file. It is not synced
// to disk, since after a crash of the host it is written again.
func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.WriteCached(path, append(text, '\n'), 0o600)
}
