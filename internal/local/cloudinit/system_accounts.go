package cloudinit

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The numbers that ordinary and system accounts get, as in Debian's and Red Hat's login.defs.
const (
	firstOrdinary, lastOrdinary = 1000, 59999
	firstSystem, lastSystem     = 201, 999
)

// table is a file of lines with fields that are separated by colons: passwd, group and the like.
type table struct {
	path  string
	lines [][]string
}

func (s System) table(name string) (*table, error) {
	t := &table{path: s.under(filepath.Join("etc", name))}
	data, err := os.ReadFile(t.path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading accounts: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		t.lines = append(t.lines, strings.Split(strings.TrimSuffix(line, "\n"), ":"))
	}
	return t, nil
}

func (t *table) write(mode os.FileMode) error {
	var b bytes.Buffer
	for _, line := range t.lines {
		b.WriteString(strings.Join(line, ":") + "\n")
	}
	if err := os.WriteFile(t.path, b.Bytes(), mode); err != nil {
		return fmt.Errorf("writing accounts: %w", err)
	}
	return nil
}

func (t *table) find(name string) []string {
	for _, line := range t.lines {
		if line[0] == name {
			return line
		}
	}
	return nil
}

// free returns the first number of a range that no line has.
func (t *table) free(from, to int) (string, error) {
	taken := map[string]bool{}
	for _, line := range t.lines {
		if len(line) > 2 {
			taken[line[2]] = true
		}
	}
	for n := from; n <= to; n++ {
		if number := strconv.Itoa(n); !taken[number] {
			return number, nil
		}
	}
	return "", fmt.Errorf("no number from %d to %d is free in %s", from, to, t.path)
}

// number looks a user or group up, by name or number; -1 for an empty name.
func (s System) number(file, kind, name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	t, err := s.table(file)
	if err != nil {
		return 0, err
	}
	line := t.find(name)
	if len(line) < 3 {
		return 0, fmt.Errorf("owner: there is no %s %s (users are made after files are written, but for files with defer: true)", kind, name)
	}
	n, err := strconv.Atoi(line[2])
	if err != nil {
		return 0, fmt.Errorf("owner: the number of %s %s is %q", kind, name, line[2])
	}
	return n, nil
}

// applyAccounts makes groups and users. Those that exist are left as they are, as cloud-init does.
func (s System) applyAccounts(groups []Group, users []User) error {
	for _, g := range groups {
		if err := s.addGroup(g.Name, false); err != nil {
			return err
		}
		for _, member := range g.Members {
			if err := s.addMember(g.Name, member); err != nil {
				return err
			}
		}
	}
	for _, u := range users {
		if err := s.addUser(u); err != nil {
			return fmt.Errorf("making the user %s: %w", u.Name, err)
		}
		fmt.Fprintf(s.Log, "users: %s\n", u.Name)
	}
	return nil
}

func (s System) addGroup(name string, system bool) error {
	if !validName(name) {
		return fmt.Errorf("%q is no group name", name)
	}
	t, err := s.table("group")
	if err != nil || t.find(name) != nil {
		return err
	}
	number, err := t.free(span(system))
	if err != nil {
		return err
	}
	t.lines = append(t.lines, []string{name, "x", number, ""})
	return t.write(0o644)
}

func span(system bool) (from, to int) {
	if system {
		return firstSystem, lastSystem
	}
	return firstOrdinary, lastOrdinary
}

func (s System) addMember(group, user string) error {
	t, err := s.table("group")
	if err != nil {
		return err
	}
	line := t.find(group)
	if len(line) < 4 {
		return fmt.Errorf("there is no group %s", group)
	}
	for _, member := range strings.Split(line[3], ",") {
		if member == user {
			return nil
		}
	}
	line[3] = strings.TrimPrefix(line[3]+","+user, ",")
	return t.write(0o644)
}

func (s System) addUser(u User) error {
	if strings.ContainsAny(u.Gecos+u.Home+u.Shell+u.Password+u.Inactive+u.UID, ":\n") {
		return fmt.Errorf("a setting contains a colon or a line break")
	}
	passwd, err := s.table("passwd")
	if err != nil {
		return err
	}
	if passwd.find(u.Name) == nil {
		if err := s.createUser(u, passwd); err != nil {
			return err
		}
	}
	if err := s.joinGroups(u); err != nil {
		return err
	}
	if err := s.addKeys(u); err != nil {
		return err
	}
	return s.addSudo(u)
}

// joinGroups makes the user a member of groups, which it makes where they are missing.
func (s System) joinGroups(u User) error {
	for _, group := range u.Groups {
		if err := s.addGroup(group, u.System); err != nil {
			return err
		}
		if err := s.addMember(group, u.Name); err != nil {
			return err
		}
	}
	return nil
}

func (s System) createUser(u User, passwd *table) error {
	group := cmp.Or(u.PrimaryGroup, u.Name)
	if err := s.addGroup(group, u.System); err != nil {
		return err
	}
	gid, err := s.number("group", "group", group)
	if err != nil {
		return err
	}
	number := u.UID
	if number == "" {
		if number, err = passwd.free(span(u.System)); err != nil {
			return err
		}
	}
	u.Home, u.Shell = cmp.Or(u.Home, "/home/"+u.Name), cmp.Or(u.Shell, "/bin/sh")
	passwd.lines = append(passwd.lines, []string{u.Name, "x", number, strconv.Itoa(gid), u.Gecos, u.Home, u.Shell})
	if err := passwd.write(0o644); err != nil {
		return err
	}
	if err := s.addPassword(u); err != nil {
		return err
	}
	if u.NoHome {
		return nil
	}
	return s.own(u.Name, u.Home, 0o750)
}

// addPassword adds a new user's password: none, as it was given, or locked.
func (s System) addPassword(u User) error {
	shadow, err := s.table("shadow")
	if err != nil {
		return err
	}
	password := u.Password
	if password == "" {
		password = "!"
	} else if u.Locked {
		password = "!" + password
	}
	shadow.lines = append(shadow.lines, []string{u.Name, password, "", "0", "99999", "7", u.Inactive, "", ""})
	return shadow.write(0o640)
}

// own makes a folder of the user's own, under the system's root.
func (s System) own(user, path string, mode os.FileMode) error {
	uid, gid, err := s.ids(user)
	if err != nil {
		return err
	}
	path = s.under(path)
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	if err := os.Chown(path, uid, gid); err != nil {
		return fmt.Errorf("giving %s to %s: %w", path, user, err)
	}
	return nil
}

// ids returns a user's number and that of its primary group.
func (s System) ids(user string) (uid, gid int, err error) {
	t, err := s.table("passwd")
	if err != nil {
		return 0, 0, err
	}
	line := t.find(user)
	if len(line) < 6 {
		return 0, 0, fmt.Errorf("there is no user %s", user)
	}
	if uid, err = strconv.Atoi(line[2]); err == nil {
		gid, err = strconv.Atoi(line[3])
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading the numbers of %s: %w", user, err)
	}
	return uid, gid, nil
}

func (s System) addKeys(u User) error {
	if len(u.Keys) == 0 {
		return nil
	}
	t, err := s.table("passwd")
	if err != nil {
		return err
	}
	line := t.find(u.Name)
	if len(line) < 6 {
		return fmt.Errorf("%s has no home folder in %s", u.Name, t.path)
	}
	dir := filepath.Join(line[5], ".ssh")
	if err := s.own(u.Name, dir, 0o700); err != nil {
		return err
	}
	return s.writeFile(File{
		Path: filepath.Join(dir, "authorized_keys"), Content: []byte(strings.Join(u.Keys, "\n") + "\n"),
		Owner: u.Name, Mode: 0o600,
	})
}

func (s System) addSudo(u User) error {
	if len(u.Sudo) == 0 {
		return nil
	}
	var b strings.Builder
	for _, rule := range u.Sudo {
		fmt.Fprintf(&b, "%s %s\n", u.Name, rule)
	}
	return s.writeFile(File{Path: "/etc/sudoers.d/90-cloud-init-users", Content: []byte(b.String()), Mode: 0o440, Append: true})
}
