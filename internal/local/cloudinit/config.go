package cloudinit

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Sentinel is the file with which Cluster API's bootstrap data says that it succeeded.
const Sentinel = "/run/cluster-api/bootstrap-success.complete"

// Meta is what templates in bootstrap data may ask about the machine.
type Meta struct {
	// Name is the host name.
	Name string
	// InstanceID identifies the machine to its provider.
	InstanceID string
	// Address is the machine's own IPv4 address, and Address6 that of IPv6; empty: it has none.
	Address, Address6 string
}

// Config is bootstrap data that was read and can be carried out.
type Config struct {
	// Hostname is empty unless the data sets one.
	Hostname string
	// Bootcmd are run first, before files are written.
	Bootcmd []Command
	// Files are written in this order; those that are deferred after users were made.
	Files []File
	// Groups are made before users.
	Groups []Group
	// Users are made after files were written.
	Users []User
	// NTP is set when time servers are asked for. The machine shares the clock of its host, so there is nothing to do
	// but to say so.
	NTP *NTP
	// Runcmd are run last, as one script.
	Runcmd []Command
	// Meta is what the data was read for.
	Meta Meta
}

// Command is one item of bootcmd or runcmd: a line for the shell, or arguments that the shell leaves alone.
type Command struct {
	Line string
	Args []string
}

// String is the command as the shell gets it.
func (c Command) String() string {
	if c.Args == nil {
		return c.Line
	}
	quoted := make([]string, len(c.Args))
	for i, a := range c.Args {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// File is one item of write_files, decoded.
type File struct {
	Path    string
	Content []byte
	// Owner is user, or user:group; empty: root.
	Owner  string
	Mode   fs.FileMode
	Append bool
	// Deferred files are written after users were made.
	Deferred bool
}

// Group is one group that is wanted.
type Group struct {
	Name    string
	Members []string
}

// User is one user that is wanted.
type User struct {
	Name, Gecos, Home, Shell string
	// Password is a hash as /etc/shadow has it; empty: none.
	Password string
	// Locked: the password allows no login.
	Locked bool
	// Inactive is the number of days after a password's end; empty: none.
	Inactive     string
	PrimaryGroup string
	Groups       []string
	Sudo         []string
	Keys         []string
	System       bool
	NoHome       bool
	UID          string
}

// NTP are the time servers that were asked for.
type NTP struct {
	Enabled bool
	Servers []string
	Pools   []string
}

// UnsupportedError says that the data asks for something that this kind of machine cannot do.
type UnsupportedError struct {
	// Directive is what was asked, as a path in the data: disk_setup, users[0].ssh_import_id.
	Directive string
	// Line is where, counted from 1; 0 when not known.
	Line int
	// Why says why not, and what would do.
	Why string
}

// Error implements error.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s%s is not supported: %s", at(e.Line), e.Directive, e.Why)
}

// SyntaxError says that the data is not what it says it is.
type SyntaxError struct {
	// Line is where, counted from 1; 0 when not known.
	Line   int
	Reason string
}

// Error implements error.
func (e *SyntaxError) Error() string { return at(e.Line) + e.Reason }

func at(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", line)
}

// Unsupported returns the directive that an error of Parse is about; empty when it is about something else.
func Unsupported(err error) string {
	if u, ok := errors.AsType[*UnsupportedError](err); ok {
		return u.Directive
	}
	return ""
}
