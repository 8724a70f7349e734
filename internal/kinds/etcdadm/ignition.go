package etcdadm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
)

// ignitionVersion is the version of Ignition's specification that Cluster API's own bootstrap provider writes, too.
const ignitionVersion = "2.3.0"

// Where the commands of a machine with Ignition lie, and what says that they have begun. cloud-init runs commands once in the life of a
// machine; a unit of systemd would run them at each start.
const (
	commandsFile = scriptDir + "commands.sh"
	commandsRan  = "/var/lib/quorate-etcd-commands"
	unitName     = "quorate-etcd-bootstrap.service"
)

const unitText = `[Unit]
Description=Make this machine a member of an etcd cluster
Wants=network-online.target
After=network-online.target
ConditionPathExists=!` + commandsRan + `
[Service]
Type=oneshot
RemainAfterExit=true
ExecStartPre=/usr/bin/touch ` + commandsRan + `
ExecStart=` + commandsFile + `
[Install]
WantedBy=multi-user.target
`

// The parts of an Ignition config that are used here.
type (
	ignitionConfig struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
		Passwd struct {
			Users []ignitionUser `json:"users,omitempty"`
		} `json:"passwd"`
		Storage struct {
			Files []ignitionFile `json:"files"`
		} `json:"storage"`
		Systemd struct {
			Units []ignitionUnit `json:"units"`
		} `json:"systemd"`
	}
	ignitionUser struct {
		Name         string   `json:"name"`
		Gecos        string   `json:"gecos,omitempty"`
		Groups       []string `json:"groups,omitempty"`
		HomeDir      string   `json:"homeDir,omitempty"`
		Shell        string   `json:"shell,omitempty"`
		PasswordHash *string  `json:"passwordHash,omitempty"`
		PrimaryGroup string   `json:"primaryGroup,omitempty"`
		Keys         []string `json:"sshAuthorizedKeys,omitempty"`
	}
	ignitionFile struct {
		Filesystem string           `json:"filesystem"`
		Path       string           `json:"path"`
		Mode       int              `json:"mode"`
		User       *ignitionOwner   `json:"user,omitempty"`
		Group      *ignitionOwner   `json:"group,omitempty"`
		Append     bool             `json:"append,omitempty"`
		Contents   ignitionContents `json:"contents"`
	}
	ignitionOwner struct {
		Name string `json:"name"`
	}
	ignitionContents struct {
		Source      string `json:"source"`
		Compression string `json:"compression,omitempty"`
	}
	ignitionUnit struct {
		Name     string `json:"name"`
		Enabled  *bool  `json:"enabled,omitempty"`
		Contents string `json:"contents,omitempty"`
	}
)

// Data returns the bootstrap data of a machine in the format that its configuration asks for, and that format.
func Data(m Member) ([]byte, bootstrapv1alpha1.Format, error) {
	if m.Spec.Format == bootstrapv1alpha1.Ignition {
		data, err := IgnitionConfig(m)
		return data, bootstrapv1alpha1.Ignition, err
	}
	data, err := CloudConfig(m)
	return data, bootstrapv1alpha1.CloudConfig, err
}

// IgnitionConfig returns the bootstrap data of a machine as Ignition reads it.
func IgnitionConfig(m Member) ([]byte, error) {
	c := ignitionConfig{}
	c.Ignition.Version = ignitionVersion
	enabled := true
	c.Systemd.Units = []ignitionUnit{{Name: unitName, Enabled: &enabled, Contents: unitText}}
	all := slices.DeleteFunc(m.files(), func(f file) bool { return f.Path == placeholder }) // /run is not that of the machine yet
	all = append(all, given(m.Spec.Files)...)
	all = append(all, file{Path: commandsFile, Permissions: "0700", Content: "#!/bin/sh\n" + strings.Join(m.commands(), "\n") + "\n"})
	for _, u := range m.Spec.Users {
		c.Passwd.Users = append(c.Passwd.Users, ignitionUserOf(u))
		if u.Sudo != "" {
			// sudo skips files with a dot in their name.
			all = append(all, file{Path: "/etc/sudoers.d/quorate-" + strings.ReplaceAll(u.Name, ".", "_"), Permissions: "0440", Content: u.Name +
				" " + u.Sudo + "\n"})
		}
	}
	if n := m.Spec.NTP; n.Enabled != nil || len(n.Servers) > 0 {
		if len(n.Servers) > 0 {
			all = append(all, file{Path: "/etc/systemd/timesyncd.conf.d/quorate.conf", Permissions: "0644", Content: "[Time]\nNTP=" +
				strings.Join(n.Servers, " ") + "\n"})
		}
		on := n.Enabled == nil || *n.Enabled
		c.Systemd.Units = append(c.Systemd.Units, ignitionUnit{Name: "systemd-timesyncd.service", Enabled: &on})
	}
	for _, f := range all {
		made, err := ignitionFileOf(f)
		if err != nil {
			return nil, err
		}
		c.Storage.Files = append(c.Storage.Files, made)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing the Ignition config: %w", err)
	}
	return text, nil
}

func ignitionUserOf(u bootstrapv1.User) ignitionUser {
	made := ignitionUser{Name: u.Name, Gecos: u.Gecos, HomeDir: u.HomeDir, Shell: u.Shell, PrimaryGroup: u.PrimaryGroup,
		Keys: u.SSHAuthorizedKeys}
	for _, group := range strings.Split(u.Groups, ",") {
		if group = strings.TrimSpace(group); group != "" {
			made.Groups = append(made.Groups, group)
		}
	}
	if u.Passwd != "" {
		made.PasswordHash = &u.Passwd
	}
	return made
}

// ignitionFileOf is a file of cloud-config, with its content as bytes, and compressed if it was.
func ignitionFileOf(f file) (ignitionFile, error) {
	made := ignitionFile{Filesystem: "root", Path: f.Path, Mode: 0o644, Append: f.Append}
	if f.Permissions != "" {
		mode, err := strconv.ParseUint(f.Permissions, 8, 16)
		if err != nil {
			return made, fmt.Errorf("file %s: permissions %q: must be octal digits such as 0640", f.Path, f.Permissions)
		}
		made.Mode = int(mode)
	}
	user, group, _ := strings.Cut(f.Owner, ":")
	if user != "" {
		made.User = &ignitionOwner{user}
	}
	if group != "" {
		made.Group = &ignitionOwner{group}
	}
	content := []byte(f.Content)
	if f.Encoding == string(bootstrapv1.Base64) || f.Encoding == string(bootstrapv1.GzipBase64) {
		var err error
		if content, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
			return made, fmt.Errorf("file %s: its content is not base64", f.Path)
		}
	}
	if f.Encoding == string(bootstrapv1.Gzip) || f.Encoding == string(bootstrapv1.GzipBase64) {
		made.Contents.Compression = "gzip"
	}
	made.Contents.Source = "data:;base64," + base64.StdEncoding.EncodeToString(content)
	return made, nil
}

// withoutIgnitionKeys is WithoutKeys for the data of IgnitionConfig.
func withoutIgnitionKeys(data []byte) ([]byte, bool, error) {
	var c ignitionConfig
	if err := json.Unmarshal(data, &c); err != nil || c.Ignition.Version == "" {
		return data, false, nil
	}
	kept := slices.DeleteFunc(slices.Clone(c.Storage.Files), func(f ignitionFile) bool { return isSecret(f.Path) })
	if len(kept) == len(c.Storage.Files) {
		return data, false, nil
	}
	c.Storage.Files = kept
	text, err := json.Marshal(c)
	return text, err == nil, err
}
