package guest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// controlSocket is where a machine's first process answers systemctl.
const controlSocket = runDir + "/systemctl.sock"

// Exit codes as systemctl gives them.
const (
	exitFailed      = 1
	exitInactive    = 3
	exitNoSuchUnit  = 4
	exitNotLoaded   = 5
	exitUnreachable = 1
)

// answer is what a systemctl call prints and returns.
type answer struct {
	Out, Err string
	Code     int
}

// Systemctl is the command inside a machine: it asks the first process and prints what that says.
func Systemctl(args []string) int {
	reply, err := askSystemctl(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "systemctl: %v\n", err)
		return exitUnreachable
	}
	_, _ = io.WriteString(os.Stdout, reply.Out)
	_, _ = io.WriteString(os.Stderr, reply.Err)
	return reply.Code
}

func askSystemctl(args []string) (answer, error) {
	conn, err := net.Dial("unix", controlSocket)
	if err != nil {
		return answer{}, fmt.Errorf("asking the machine's first process: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := json.NewEncoder(conn).Encode(args); err != nil {
		return answer{}, fmt.Errorf("asking the machine's first process: %w", err)
	}
	var reply answer
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return answer{}, fmt.Errorf("reading what the machine's first process answers: %w", err)
	}
	return reply, nil
}

// serveSystemctl answers until the listener is closed.
func serveSystemctl(l net.Listener, t *units) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accepting a systemctl call: %w", err)
		}
		go func() {
			defer func() { _ = conn.Close() }()
			var args []string
			if json.NewDecoder(conn).Decode(&args) == nil {
				// The process that asked may be gone; no other wants the answer.
				_ = json.NewEncoder(conn).Encode(systemctl(t, args))
			}
		}()
	}
}

// call is one systemctl command line, taken apart.
type call struct {
	verb       string
	units      []string
	quiet, now bool
	noBlock    bool
	properties []string
}

// parseCall reads a command line; an option that would change the outcome and is not known is an error.
func parseCall(args []string) (call, error) {
	var c call
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		switch {
		case !strings.HasPrefix(name, "-"):
			c.addWord(args[i])
		case name == "-p" || name == "--property":
			if !given {
				i++
				if i == len(args) {
					return c, fmt.Errorf("option %s requires an argument", name)
				}
				value = args[i]
			}
			c.properties = append(c.properties, strings.Split(value, ",")...)
		case !c.setOption(name):
			return c, fmt.Errorf("unrecognized option '%s'", name)
		}
	}
	return c, nil
}

// addWord adds what is no option: the verb, and then units.
func (c *call) addWord(word string) {
	if c.verb == "" {
		c.verb = word
		return
	}
	c.units = append(c.units, strings.TrimSuffix(word, ".service"))
}

// setOption sets an option without a value, and reports whether it is known.
func (c *call) setOption(name string) bool {
	switch name {
	case "-q", "--quiet":
		c.quiet = true
	case "--now":
		c.now = true
	case "--no-block":
		c.noBlock = true
	case "--no-pager", "--system", "-f", "--force", "-l", "--full", "--no-ask-password":
		// Here they change nothing.
	default:
		return false
	}
	return true
}

// verbs that act on units, each with what systemctl says when there is no such unit.
var verbs = map[string]struct {
	run     func(*unit, call) answer
	missing func(name string) answer
}{
	"start":   {startUnit, notFound("start", "not found")},
	"restart": {restartUnit, notFound("restart", "not found")},
	"stop":    {stopUnit, notFound("stop", "not loaded")},
	"enable": {enableUnit, func(n string) answer {
		return answer{Err: fmt.Sprintf("Failed to enable unit: Unit file %s.service does not exist.\n", n), Code: exitFailed}
	}},
	"disable": {disableUnit, func(n string) answer {
		return answer{Err: fmt.Sprintf("Failed to disable unit: Unit file %s.service does not exist.\n", n), Code: exitFailed}
	}},
	"is-active": {isActive, func(string) answer { return answer{Out: "inactive\n", Code: exitInactive} }},
	"is-enabled": {isEnabled, func(n string) answer {
		return answer{Err: fmt.Sprintf("Failed to get unit file state for %s.service: No such file or directory\n", n), Code: exitFailed}
	}},
	"status": {unitStatus, func(n string) answer {
		return answer{Err: fmt.Sprintf("Unit %s.service could not be found.\n", n), Code: exitNoSuchUnit}
	}},
	"show": {showUnit, func(n string) answer {
		return answer{Out: fmt.Sprintf("Id=%s.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n", n)}
	}},
}

func notFound(verb, how string) func(string) answer {
	return func(n string) answer {
		return answer{Err: fmt.Sprintf("Failed to %s %s.service: Unit %s.service %s.\n", verb, n, n, how), Code: exitNotLoaded}
	}
}

// systemctl carries out one call.
func systemctl(t *units, args []string) answer {
	c, err := parseCall(args)
	if err != nil {
		return answer{Err: "systemctl: " + err.Error() + "\n", Code: exitFailed}
	}
	if c.verb == "daemon-reload" || c.verb == "reset-failed" {
		// Units are built in, or read again before each start.
		return answer{}
	}
	if _, ok := verbs[c.verb]; !ok {
		return answer{Err: fmt.Sprintf("Unknown command verb %q: this machine knows %s.\n", c.verb, strings.Join(knownVerbs(), ", ")),
			Code: exitFailed}
	}
	if len(c.units) == 0 {
		return answer{Err: "Too few arguments.\n", Code: exitFailed}
	}
	var all answer
	for _, name := range c.units {
		one := answerFor(t, c, name)
		if c.quiet {
			one.Out = ""
		}
		all.Out, all.Err = all.Out+one.Out, all.Err+one.Err
		if one.Code != 0 {
			all.Code = one.Code
		}
	}
	return all
}

// answerFor carries a call out on one of its units.
func answerFor(t *units, c call, name string) answer {
	verb := verbs[c.verb]
	u, err := t.find(name)
	switch {
	case err != nil:
		return answer{Err: fmt.Sprintf("Failed to %s %s.service: %v\n", c.verb, name, err), Code: exitFailed}
	case u == nil:
		return verb.missing(name)
	}
	return verb.run(u, c)
}

func knownVerbs() []string {
	names := []string{"daemon-reload", "reset-failed"}
	for name := range verbs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// exists reports whether the unit is built in, or has a file.
func (u *unit) exists() bool {
	if u.file == "" {
		return true
	}
	_, err := os.Stat(u.file)
	return err == nil
}

func startUnit(u *unit, c call) answer {
	if u.file == "" || c.noBlock {
		u.start()
		return answer{}
	}
	if err := u.await(); err != nil {
		return answer{Err: fmt.Sprintf("Job for %s.service failed: %v. See its log.\n", u.name, err), Code: exitFailed}
	}
	return answer{}
}

func stopUnit(u *unit, _ call) answer {
	if err := u.stop(); err != nil {
		return answer{Err: err.Error() + "\n", Code: exitFailed}
	}
	return answer{}
}

func restartUnit(u *unit, c call) answer {
	if a := stopUnit(u, c); a.Code != 0 {
		return a
	}
	return startUnit(u, c)
}

func enableUnit(u *unit, c call) answer {
	err := os.MkdirAll(filepath.Dir(u.enabled), 0o755)
	if err == nil {
		err = os.Symlink(cmp.Or(u.file, "/lib/systemd/system/"+u.name+".service"), u.enabled)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return answer{Err: fmt.Sprintf("Failed to enable unit: %v\n", err), Code: exitFailed}
	}
	if c.now {
		return startUnit(u, c)
	}
	return answer{}
}

func disableUnit(u *unit, c call) answer {
	if err := os.Remove(u.enabled); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return answer{Err: fmt.Sprintf("Failed to disable unit: %v\n", err), Code: exitFailed}
	}
	if c.now {
		return stopUnit(u, c)
	}
	return answer{}
}

// startsWithMachine reports whether the unit is enabled.
func (u *unit) startsWithMachine() bool {
	_, err := os.Lstat(u.enabled)
	return err == nil && u.exists()
}

func isActive(u *unit, _ call) answer {
	s := u.state()
	a := answer{Out: s.active + "\n"}
	if s.active != "active" {
		a.Code = exitInactive
	}
	return a
}

func isEnabled(u *unit, _ call) answer {
	if u.startsWithMachine() {
		return answer{Out: "enabled\n"}
	}
	return answer{Out: "disabled\n", Code: exitFailed}
}

func (u *unit) enablement() string {
	if u.startsWithMachine() {
		return "enabled"
	}
	return "disabled"
}

func unitStatus(u *unit, _ call) answer {
	s := u.state()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s.service - %s\n", u.name, u.description)
	fmt.Fprintf(&b, "     Loaded: loaded (%s; %s)\n", cmp.Or(u.file, "built into quorate-node"), u.enablement())
	fmt.Fprintf(&b, "     Active: %s (%s)", s.active, s.sub)
	if !s.since.IsZero() {
		fmt.Fprintf(&b, " since %s", s.since.UTC().Format(time.RFC3339))
	}
	fmt.Fprintln(&b)
	if s.pid != 0 {
		fmt.Fprintf(&b, "   Main PID: %d\n", s.pid)
	}
	if s.last != "" {
		fmt.Fprintf(&b, "   Last end: %s\n", s.last)
	}
	a := answer{Out: b.String()}
	if s.active != "active" {
		a.Code = exitInactive
	}
	return a
}

func showUnit(u *unit, c call) answer {
	s := u.state()
	var b bytes.Buffer
	for _, p := range [][2]string{
		{"Id", u.name + ".service"},
		{"Description", u.description},
		{"LoadState", "loaded"},
		{"ActiveState", s.active},
		{"SubState", s.sub},
		{"UnitFileState", u.enablement()},
		{"MainPID", fmt.Sprint(s.pid)},
	} {
		if len(c.properties) == 0 || slices.Contains(c.properties, p[0]) {
			fmt.Fprintf(&b, "%s=%s\n", p[0], p[1])
		}
	}
	return answer{Out: b.String()}
}
