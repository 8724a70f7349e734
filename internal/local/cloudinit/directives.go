package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// directives are those that a machine carries out, each with how it is read.
var directives map[string]func(*Config, named) error

func init() {
	directives = map[string]func(*Config, named) error{
		"write_files": readFiles,
		"bootcmd":     func(c *Config, n named) (err error) { c.Bootcmd, err = readCommands(n); return err },
		"runcmd":      func(c *Config, n named) (err error) { c.Runcmd, err = readCommands(n); return err },
		"users":       readUsers,
		"groups":      readGroups,
		"ntp":         readNTP,
		"hostname":    func(c *Config, n named) (err error) { c.Hostname, err = n.text(); return err },
		// The name is only ever set by the data, so that there is nothing to preserve it from.
		"preserve_hostname": func(_ *Config, n named) error { _, err := n.flag(); return err },
	}
}

func directiveNames() []string {
	var names []string
	for name := range directives {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func readCommands(n named) ([]Command, error) {
	items, err := n.items()
	if err != nil {
		return nil, err
	}
	var all []Command
	for _, item := range items {
		switch {
		case item.value.Kind == yaml.SequenceNode:
			args, err := item.list()
			if err != nil {
				return nil, err
			}
			if len(args) == 0 {
				return nil, item.wrong("is an empty list, must be a command")
			}
			all = append(all, Command{Args: args})
		case item.value.Kind == yaml.ScalarNode && item.value.Tag == "!!str":
			all = append(all, Command{Line: item.value.Value})
		default:
			return nil, item.wrong("is %s, must be a command: text, or a list of arguments", describeNode(item.value))
		}
	}
	return all, nil
}

// The most that one file and all files may hold, in bytes: bootstrap data of a megabyte can unpack to a thousand times as much,
// in the memory of a machine's first process.
const (
	fileLimit = 16 << 20
	allLimit  = 64 << 20
)

func readFiles(c *Config, n named) error {
	items, err := n.items()
	if err != nil {
		return err
	}
	total := 0
	for _, item := range items {
		f, err := readFile(item)
		if err != nil {
			return err
		}
		if total += len(f.Content); total > allLimit {
			return item.wrong("the files have more than %d MiB of content", allLimit>>20)
		}
		c.Files = append(c.Files, f)
	}
	return nil
}

func readFile(item named) (File, error) {
	t := fileText{File: File{Mode: 0o644}}
	if err := each(item.value, item.path, t.read); err != nil {
		return t.File, err
	}
	if !path.IsAbs(t.Path) {
		return t.File, item.wrong("path %q must begin with /", t.Path)
	}
	var err error
	if t.Content, err = decode(t.content, t.encoding); err != nil {
		return t.File, item.wrong("content of %s: %v", t.Path, err)
	}
	return t.File, nil
}

// fileText is a file as it is written in the data, its content not decoded yet.
type fileText struct {
	File
	content, encoding string
}

// read reads one key of a file.
func (t *fileText) read(n named) (err error) {
	switch n.name {
	case "path":
		t.Path, err = readPath(n)
	case "content":
		t.content, err = n.text()
	case "encoding":
		t.encoding, err = n.text()
	case "owner":
		t.Owner, err = n.text()
	case "permissions":
		t.Mode, err = readMode(n)
	case "append":
		t.Append, err = n.flag()
	case "defer":
		t.Deferred, err = n.flag()
	default:
		err = n.unsupported("a file has path, content, encoding, owner, permissions, append and defer")
	}
	return err
}

// readPath reads where a file is to be written. What only systemd would read is refused, as there is none.
func readPath(n named) (string, error) {
	file, err := n.text()
	if forSystemd(file) {
		return file, n.unsupported(fmt.Sprintf("%s: %s", file, noSystemd))
	}
	return file, err
}

// readMode reads permissions, which are octal digits whether they are quoted or not.
func readMode(n named) (fs.FileMode, error) {
	text, err := n.text()
	if err != nil {
		return 0, err
	}
	bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
	if err != nil || bits > 0o7777 {
		return 0, n.wrong("%q must be octal digits such as '0640'", text)
	}
	mode := fs.FileMode(bits & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return mode, nil
}

// The names that cloud-init knows for the encodings of content.
var (
	base64Names = []string{"b64", "base64"}
	gzipNames   = []string{"gz", "gzip"}
	bothNames   = []string{"gz+base64", "gzip+base64", "gz+b64", "gzip+b64"}
	plainNames  = []string{"", "text/plain"}
)

func decode(content, encoding string) ([]byte, error) {
	encoding = strings.ToLower(strings.TrimSpace(encoding))
	raw := []byte(content)
	switch {
	case slices.Contains(plainNames, encoding), slices.Contains(gzipNames, encoding):
	case slices.Contains(base64Names, encoding), slices.Contains(bothNames, encoding):
		// Long content is broken into lines.
		compact := strings.Join(strings.Fields(content), "")
		decoded, err := base64.StdEncoding.DecodeString(compact)
		if err != nil {
			return nil, fmt.Errorf("is not base64: %w", err)
		}
		raw = decoded
	default:
		known := slices.Concat(base64Names, gzipNames, bothNames, plainNames[1:])
		return nil, fmt.Errorf("encoding %q must be one of %s", encoding, strings.Join(known, ", "))
	}
	if !slices.Contains(gzipNames, encoding) && !slices.Contains(bothNames, encoding) {
		return raw, nil
	}
	return unpack(raw)
}

// unpack unpacks gzip, as far as the limit of files allows.
func unpack(packed []byte) ([]byte, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("is not gzip: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(unpacked, fileLimit+1))
	if err != nil {
		return nil, fmt.Errorf("is damaged gzip: %w", err)
	}
	if len(plain) > fileLimit {
		return nil, fmt.Errorf("unpacks to more than %d MiB", fileLimit>>20)
	}
	return plain, nil
}

func readNTP(c *Config, n named) error {
	ntp := NTP{Enabled: true}
	err := each(n.value, n.path, func(n named) (err error) {
		switch n.name {
		case "enabled":
			ntp.Enabled, err = n.flag()
		case "servers":
			if n.value.Tag != "!!null" {
				ntp.Servers, err = n.list()
			}
		case "pools":
			if n.value.Tag != "!!null" {
				ntp.Pools, err = n.list()
			}
		default:
			err = n.unsupported("ntp has enabled, servers and pools; a local machine shares the clock of its host")
		}
		return err
	})
	c.NTP = &ntp
	return err
}
