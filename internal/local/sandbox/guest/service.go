package guest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/program/envfile"
)

// listenNotify hears what a unit's program says of itself, for the machine's life.
func listenNotify(u *unit, socket string) error {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("listening for %s: %w", u.name, err)
	}
	go func() {
		message := make([]byte, 4096)
		for {
			n, err := conn.Read(message)
			if err != nil {
				fmt.Fprintf(u.log, "quorate-node: hearing %s: %v\n", u.name, err)
				return
			}
			if slices.ContainsFunc(bytes.Split(message[:n], []byte("\n")), func(line []byte) bool { return string(line) == "READY=1" }) {
				u.notified()
			}
		}
	}()
	return nil
}

// directives are those of a unit's section Service that a machine heeds.
type directives struct {
	exec, environment, files []string
	kind, restart            string
	delay                    time.Duration
}

// withoutEffect are directives that a machine made of namespaces need not heed: what they ask for is set for the whole
// machine, or belongs to its host.
var withoutEffect = []string{
	"LimitNOFILE", "LimitNPROC", "Nice", "IOSchedulingClass", "IOSchedulingPriority", "CPUSchedulingPolicy", "CPUSchedulingPriority",
	"MemoryLow", "MemoryMin", "OOMScoreAdjust", "CPUWeight", "IOWeight",
}

// loadService reads a unit's file and its drop-ins. A setting that would have no effect is an error.
func loadService(file, socket string) (service, error) {
	dropIns, err := filepath.Glob(file + ".d/*.conf")
	if err != nil {
		return service{}, fmt.Errorf("looking for drop-ins of %s: %w", file, err)
	}
	slices.Sort(dropIns)
	var d directives
	for _, name := range append([]string{file}, dropIns...) {
		if err := d.read(name); err != nil {
			return service{}, err
		}
	}
	return d.service(file, socket)
}

// read takes the lines of one file.
func (d *directives) read(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading a unit: %w", err)
	}
	section, number := "", 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.ContainsAny(line[:1], "#;"):
		case line[0] == '[':
			section = line
		case section == "[Service]":
			err = d.take(line)
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", name, number, err)
		}
	}
	return nil
}

// take takes one line. A list that is given nothing is emptied.
func (d *directives) take(line string) error {
	key, value, found := strings.Cut(line, "=")
	if !found || strings.HasSuffix(value, `\`) {
		return fmt.Errorf("%q is not NAME=VALUE on one line", line)
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	lists := map[string]*[]string{"ExecStart": &d.exec, "Environment": &d.environment, "EnvironmentFile": &d.files}
	if list, ok := lists[key]; ok {
		*list = append(*list, value)
		if value == "" {
			*list = nil
		}
		return nil
	}
	return d.set(key, value)
}

// set takes a directive that is no list.
func (d *directives) set(key, value string) (err error) {
	if key == "TimeoutStartSec" && slices.Contains([]string{"0", "infinity"}, value) || slices.Contains(withoutEffect, key) {
		return nil
	}
	switch key {
	case "Type":
		d.kind = value
	case "Restart":
		d.restart = value
	case "RestartSec":
		d.delay, err = span(value)
	default:
		err = fmt.Errorf("%s=%s is not known to a local machine, which has no systemd", key, value)
	}
	return err
}

// span reads a time: seconds, or a number with a unit.
func span(value string) (time.Duration, error) {
	text := strings.NewReplacer("min", "m", " ", "").Replace(value)
	if _, err := strconv.ParseUint(text, 10, 32); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no time such as 5s", value)
	}
	return d, nil
}

// service is what the directives say.
func (d *directives) service(file, socket string) (service, error) {
	argv, err := d.command()
	if err != nil {
		return service{}, fmt.Errorf("%s: %w", file, err)
	}
	s := service{argv: argv, restart: cmp.Or(restart(d.restart), restartNever), delay: d.delay, notifies: d.kind == "notify"}
	if !slices.Contains([]string{"", "simple", "exec", "notify"}, d.kind) {
		return service{}, fmt.Errorf("%s: Type is %s, want simple, exec or notify", file, d.kind)
	}
	if !slices.Contains([]restart{restartAlways, restartOnFailure, restartNever}, s.restart) {
		return service{}, fmt.Errorf("%s: Restart is %s, want always, on-failure or no", file, s.restart)
	}
	if s.notifies {
		s.env = append(s.env, "NOTIFY_SOCKET="+socket)
	}
	for _, line := range d.environment {
		s.env = append(s.env, envfile.Texts(line)...)
	}
	for _, name := range d.files {
		variables, err := environmentLines(name)
		if err != nil {
			return service{}, err
		}
		s.env = append(s.env, variables...)
	}
	return s, nil
}

// command is what ExecStart says.
func (d *directives) command() ([]string, error) {
	if len(d.exec) != 1 {
		return nil, fmt.Errorf("ExecStart is given %d times, want once", len(d.exec))
	}
	argv := strings.Fields(d.exec[0])
	if !filepath.IsAbs(argv[0]) || strings.ContainsAny(d.exec[0], `"'\$%`) {
		return nil, fmt.Errorf("ExecStart is %q, want a path and arguments without quotes or variables", d.exec[0])
	}
	return argv, nil
}

// environmentLines reads a file of variables as systemd does. One whose name begins with a hyphen may be missing.
func environmentLines(name string) ([]string, error) {
	path, optional := strings.CutPrefix(name, "-")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && optional {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading an environment: %w", err)
	}
	return envfile.Variables(string(data)), nil
}
