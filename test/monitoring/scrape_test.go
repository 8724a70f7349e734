package monitoring

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// documents returns the YAML documents of a file, by their kind.
func documents(t *testing.T, path string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, text := range regexp.MustCompile(`(?m)^---$`).Split(read(t, path), -1) {
		var document map[string]any
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		kind, _ := document["kind"].(string)
		all[kind] = document
	}
	return all
}

// part returns what a path of fields and list positions leads to; nil: nothing.
func part(in any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := in.(map[string]any)
			in = m[step]
		case int:
			l, _ := in.([]any)
			if step >= len(l) {
				return nil
			}
			in = l[step]
		}
	}
	return in
}

// TestScrape: Prometheus sends its token only to whom it has verified, by the certificate that cert-manager makes for the manager. The page
// says the same.
func TestScrape(t *testing.T) {
	monitor := documents(t, "config/monitoring/scrape.yaml")["ServiceMonitor"]
	tls := part(monitor, "spec", "endpoints", 0, "tlsConfig")
	if tls == nil {
		t.Fatal("scrape.yaml has no tlsConfig")
	}
	certificate := documents(t, "config/certmanager/certificate.yaml")["Certificate"]
	names, _ := part(certificate, "spec", "dnsNames").([]any)
	server, _ := part(tls, "serverName").(string)
	if !slices.Contains(names, any(server)) {
		t.Errorf("scrape.yaml verifies the name %q, which the certificate lacks; it has %v", server, names)
	}
	if got, want := part(tls, "ca", "secret", "name"), part(certificate, "spec", "secretName"); got == nil || got != want ||
		part(tls, "ca", "secret", "key") != "ca.crt" {
		t.Errorf("scrape.yaml takes the authority from %v, want ca.crt of secret %v", part(tls, "ca"), want)
	}
	page := read(t, "docs/metrics.md")
	if !strings.Contains(page, "server_name: "+server+"}") || !strings.Contains(page, "ca_file: ") {
		t.Errorf("docs/metrics.md does not verify the name %s", server)
	}
	for _, path := range []string{"config/monitoring/scrape.yaml", "docs/metrics.md"} {
		if text := read(t, path); regexp.MustCompile(`(?i)insecure_?skip_?verify|curl -k`).MatchString(text) {
			t.Errorf("%s skips the verification", path)
		}
	}
}
