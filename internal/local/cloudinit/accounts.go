package cloudinit

import (
	"regexp"

	"go.yaml.in/yaml/v3"
)

func readGroups(c *Config, n named) error {
	if n.value.Kind == yaml.MappingNode {
		return each(n.value, n.path, c.addGroup)
	}
	if n.value.Kind == yaml.ScalarNode {
		names, err := n.texts()
		for _, name := range names {
			c.Groups = append(c.Groups, Group{Name: name})
		}
		return err
	}
	items, err := n.items()
	if err != nil {
		return err
	}
	for _, item := range items {
		if err := readGroup(c, item); err != nil {
			return err
		}
	}
	return nil
}

// readGroup reads an item of a list of groups: a name, or a mapping of names to members.
func readGroup(c *Config, item named) error {
	if item.value.Kind == yaml.MappingNode {
		return each(item.value, item.path, c.addGroup)
	}
	name, err := item.text()
	if err != nil {
		return err
	}
	c.Groups = append(c.Groups, Group{Name: name})
	return nil
}

// addGroup reads a group that is written as name: members.
func (c *Config) addGroup(n named) error {
	members, err := n.texts()
	c.Groups = append(c.Groups, Group{Name: n.name, Members: members})
	return err
}

func readUsers(c *Config, n named) error {
	items, err := n.items()
	if err != nil {
		return err
	}
	for _, item := range items {
		if item.value.Kind == yaml.ScalarNode {
			return item.unsupported("the user " + item.value.Value +
				" of the distribution does not exist on a local machine; write a user with its name and settings")
		}
		u, err := readUser(item)
		if err != nil {
			return err
		}
		c.Users = append(c.Users, u)
	}
	return nil
}

// userFields are the settings of a user, each with how it is read.
var userFields = map[string]func(*User, named) error{
	"name":                func(u *User, n named) (err error) { u.Name, err = n.text(); return err },
	"gecos":               func(u *User, n named) (err error) { u.Gecos, err = n.text(); return err },
	"homedir":             func(u *User, n named) (err error) { u.Home, err = n.text(); return err },
	"shell":               func(u *User, n named) (err error) { u.Shell, err = n.text(); return err },
	"passwd":              func(u *User, n named) (err error) { u.Password, err = n.text(); return err },
	"hashed_passwd":       func(u *User, n named) (err error) { u.Password, err = n.text(); return err },
	"lock_passwd":         func(u *User, n named) (err error) { u.Locked, err = n.flag(); return err },
	"primary_group":       func(u *User, n named) (err error) { u.PrimaryGroup, err = n.text(); return err },
	"groups":              func(u *User, n named) (err error) { u.Groups, err = n.texts(); return err },
	"ssh_authorized_keys": func(u *User, n named) (err error) { u.Keys, err = n.list(); return err },
	"system":              func(u *User, n named) (err error) { u.System, err = n.flag(); return err },
	"no_create_home":      func(u *User, n named) (err error) { u.NoHome, err = n.flag(); return err },
	"uid":                 func(u *User, n named) (err error) { u.UID, err = n.text(); return err },
	"inactive":            readInactive,
	"sudo":                readSudo,
}

func readUser(item named) (User, error) {
	// A password is locked unless the data says otherwise.
	u := User{Locked: true}
	err := each(item.value, item.path, func(n named) error {
		read, ok := userFields[n.name]
		if !ok {
			return n.unsupported("it is none of the settings of a user that a local machine knows")
		}
		return read(&u, n)
	})
	if err != nil {
		return u, err
	}
	if !validName(u.Name) {
		return u, item.wrong("name %q must be a user name: a lower-case letter or _, then letters, digits, - and _", u.Name)
	}
	return u, nil
}

// readInactive reads a number of days. Cluster API writes a truth value there: true is zero days, false none.
func readInactive(u *User, n named) error {
	if days, err := n.flag(); err == nil {
		if days {
			u.Inactive = "0"
		}
		return nil
	}
	text, err := n.text()
	u.Inactive = text
	return err
}

// readSudo reads rules as text or as a list; false is no rule.
func readSudo(u *User, n named) error {
	if n.value.Kind != yaml.ScalarNode {
		rules, err := n.list()
		u.Sudo = rules
		return err
	}
	if allowed, err := n.flag(); err == nil {
		if allowed {
			return n.wrong("must be a rule such as ALL=(ALL) NOPASSWD:ALL, or false")
		}
		return nil
	}
	if n.value.Tag != "!!null" {
		u.Sudo = []string{n.value.Value}
	}
	return nil
}

func validName(name string) bool { return namePattern.MatchString(name) }

var namePattern = regexp.MustCompile(`^[a-z_][a-zA-Z0-9_.-]{0,31}$`)
