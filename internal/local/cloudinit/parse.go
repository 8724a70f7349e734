package cloudinit

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const header = "#cloud-config"

// Parse reads bootstrap data. Errors are *SyntaxError and *UnsupportedError.
func Parse(data []byte, meta Meta) (*Config, error) {
	text, err := document(data, meta)
	if err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		return nil, yamlError(err)
	}
	if err := checkAliases(&root); err != nil {
		return nil, err
	}
	c := &Config{Meta: meta}
	if len(root.Content) == 0 {
		return c, nil
	}
	top := root.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return c, nil
	}
	return c, each(top, "", c.readDirective)
}

// readDirective reads one key of the data's top level.
func (c *Config) readDirective(n named) error {
	read, ok := directives[n.name]
	if !ok {
		return n.unsupported(whyNot(n.name))
	}
	if n.value.Tag == "!!null" {
		// An empty list of commands is written as a key without a value.
		return nil
	}
	return read(c, n)
}

// document returns the cloud-config with its template filled in.
func document(data []byte, meta Meta) (string, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return "", &UnsupportedError{Directive: "compressed user data", Line: 1, Why: "it must be plain cloud-config"}
	}
	if !utf8.Valid(data) {
		return "", &SyntaxError{Line: firstBadLine(data), Reason: "the data is not UTF-8 text: a file with other bytes needs an encoding, such " +
			"as base64"}
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	first, _, _ := strings.Cut(text, "\n")
	template := strings.TrimSpace(first) == jinjaHeader
	if template {
		rendered, err := render(text, meta)
		if err != nil {
			return "", err
		}
		_, rest, _ := strings.Cut(rendered, "\n")
		first, _, _ = strings.Cut(strings.TrimLeft(rest, "\n"), "\n")
		text = rendered
	}
	if strings.TrimSpace(first) == header {
		return text, nil
	}
	line := 1
	if template {
		line = 2
	}
	return "", &UnsupportedError{Directive: kind(first), Line: line, Why: "the data must begin with " + header}
}

// firstBadLine returns the number of the first line that is not UTF-8 text, counted from 1.
func firstBadLine(data []byte) int {
	number := 1
	for line := range bytes.Lines(data) {
		if !utf8.Valid(line) {
			break
		}
		number++
	}
	return number
}

// kind names user data that is no cloud-config, without showing what is in it.
func kind(first string) string {
	switch {
	case strings.HasPrefix(first, "#!"):
		return "a script as user data"
	case strings.HasPrefix(first, "{"):
		return "JSON (ignition) user data"
	case strings.HasPrefix(first, "Content-Type:"), strings.HasPrefix(first, "MIME-Version:"):
		return "multipart user data"
	case strings.HasPrefix(first, "#"):
		return "user data of the kind " + strings.TrimSpace(first)
	}
	return "user data without the header " + header
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): `)

func yamlError(err error) error {
	reason := err.Error()
	if m := yamlLine.FindStringSubmatch(reason); m != nil {
		line, _ := strconv.Atoi(m[1])
		return &SyntaxError{Line: line, Reason: strings.TrimPrefix(reason, m[0])}
	}
	return &SyntaxError{Reason: strings.TrimPrefix(reason, "yaml: ")}
}

// refused are directives that are known, each with why a machine made of namespaces does not carry it out.
var refused = map[string]string{
	"disk_setup":           "a local machine has no disks of its own; its root is a folder of the host",
	"fs_setup":             "a local machine has no disks of its own; its root is a folder of the host",
	"mounts":               "a local machine has no disks to mount; its root is a folder of the host",
	"growpart":             "a local machine has no partitions",
	"swap":                 "a local machine shares the memory of its host",
	"packages":             "a local machine comes with the programs of its host; install them there",
	"package_update":       "a local machine comes with the programs of its host; update them there",
	"package_upgrade":      "a local machine comes with the programs of its host; upgrade them there",
	"apt":                  "a local machine comes with the programs of its host; install them there",
	"snap":                 "a local machine comes with the programs of its host; install them there",
	"power_state":          "a local machine is stopped and started by quorate machine",
	"ssh_authorized_keys":  "a local machine runs no SSH server; use quorate shell",
	"ssh_keys":             "a local machine runs no SSH server; use quorate shell",
	"ca_certs":             "write the certificates with write_files and run update-ca-certificates with runcmd",
	"manage_etc_hosts":     "write /etc/hosts with write_files",
	"cloud_init_modules":   "the modules and their order are fixed",
	"cloud_config_modules": "the modules and their order are fixed",
	"cloud_final_modules":  "the modules and their order are fixed",
}

func whyNot(name string) string {
	if why, ok := refused[name]; ok {
		return why
	}
	return "a local machine knows " + strings.Join(directiveNames(), ", ")
}
