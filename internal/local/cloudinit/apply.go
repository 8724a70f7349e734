package cloudinit

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// System is the machine that data is carried out on.
type System struct {
	// Root is the folder under which files are written and looked for; "/" on a machine.
	Root string
	// Run runs a program to its end with both outputs going to out, and returns its exit code.
	Run func(ctx context.Context, argv []string, out io.Writer) (int, error)
	// Log gets everything that commands print, and a line for each other step.
	Log io.Writer
	// Began is told each command before it runs. Commands may hold secrets as well as any other part of the data.
	Began func(command string)
	// SetHostname sets the host name.
	SetHostname func(name string) error
}

// Failure is why the data did not do what it was meant to.
type Failure struct {
	// Command is the command or the step that failed.
	Command string
	// Output is the end of what it printed, or what went wrong.
	Output string
	// Unsupported is what the data made that this kind of machine cannot carry out; empty: something else went wrong.
	Unsupported string
}

// outputLimit is how much of a command's output is kept, in bytes: kubeadm's last words, and the stack trace that follows them where it
// was asked to be verbose.
const outputLimit = 8 << 10

// Apply carries the data out, in cloud-init's order. Like cloud-init it goes on after a command that fails. Nil means
// success: Cluster API's sentinel was written or, in data without one, every command had exit code 0, and no command wrote
// units for systemd. A command that failed although the sentinel was written is in the log.
func (c *Config) Apply(ctx context.Context, s System) *Failure {
	if c.Hostname != "" {
		if err := c.applyHostname(s); err != nil {
			return &Failure{Command: "hostname", Output: err.Error()}
		}
	}
	boot := c.script(ctx, s, "bootcmd", c.Bootcmd)
	if err := s.writeFiles(c.Files, false); err != nil {
		return &Failure{Command: "write_files", Output: err.Error()}
	}
	if err := s.applyAccounts(c.Groups, c.Users); err != nil {
		return &Failure{Command: "users", Output: err.Error()}
	}
	if c.NTP != nil {
		fmt.Fprintf(s.Log, "ntp: nothing to do, the clock is the host's (asked for: %s)\n", strings.Join(append(c.NTP.Servers, c.NTP.Pools...),
			" "))
	}
	if err := s.writeFiles(c.Files, true); err != nil {
		return &Failure{Command: "write_files", Output: err.Error()}
	}
	run := c.script(ctx, s, "runcmd", c.Runcmd)
	if failure := conclude(s, c.Runcmd, boot, run); failure != nil {
		return failure
	}
	return unheeded(s)
}

// conclude tells success from failure, and which of several failed commands is the one to show.
func conclude(s System, commands []Command, boot, run outcome) *Failure {
	for i, command := range commands {
		if !strings.Contains(command.String(), Sentinel) {
			continue
		}
		if _, err := os.Stat(s.under(Sentinel)); err == nil {
			return nil
		}
		// The command that writes the sentinel is what it is all about, whatever failed before it or because of it.
		for _, f := range run.failed {
			if f.index == i {
				return &f.Failure
			}
		}
		if f := first(boot, run); f != nil {
			return f
		}
		return &Failure{Command: command.String(), Output: run.last + "\nthe commands ended without writing " + Sentinel}
	}
	return first(boot, run)
}

func first(outcomes ...outcome) *Failure {
	for _, o := range outcomes {
		if len(o.failed) > 0 {
			return &o.failed[0].Failure
		}
	}
	return nil
}

// under is where a path of the machine lies: as for the kernel, no ".." leads above the machine's root.
func (s System) under(name string) string { return filepath.Join(s.Root, filepath.Join("/", name)) }

func (c *Config) applyHostname(s System) error {
	if err := os.WriteFile(s.under("etc/hostname"), []byte(c.Hostname+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the host name: %w", err)
	}
	if err := s.SetHostname(c.Hostname); err != nil {
		return fmt.Errorf("setting the host name %s: %w", c.Hostname, err)
	}
	return nil
}

// writeFiles writes the files that are deferred, or those that are not.
func (s System) writeFiles(files []File, deferred bool) error {
	for _, f := range files {
		if f.Deferred != deferred {
			continue
		}
		if err := s.writeFile(f); err != nil {
			return err
		}
		fmt.Fprintf(s.Log, "write_files: %s, %d bytes\n", f.Path, len(f.Content))
	}
	return nil
}

func (s System) writeFile(f File) error {
	path := s.under(f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	uid, gid, err := s.owner(f.Owner)
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if f.Append {
		flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	// Private until the final owner and mode are set: the content may be a key.
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	err = f.fill(file, uid, gid)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	return nil
}

// fill writes the content of a file that was opened, and gives it its owner and mode.
func (f File) fill(file *os.File, uid, gid int) error {
	if _, err := file.Write(f.Content); err != nil {
		return err
	}
	if f.Owner != "" {
		if err := file.Chown(uid, gid); err != nil {
			return err
		}
	}
	return file.Chmod(f.Mode)
}

// owner returns the numbers of user, or user:group; -1 where nothing is said.
func (s System) owner(owner string) (uid, gid int, err error) {
	user, group, _ := strings.Cut(owner, ":")
	if uid, err = s.number("passwd", "user", user); err != nil {
		return 0, 0, err
	}
	gid, err = s.number("group", "group", group)
	return uid, gid, err
}
