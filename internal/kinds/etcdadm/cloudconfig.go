package etcdadm

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/yaml"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
)

// Role is how a machine becomes a member.
type Role string

const (
	// Init begins an etcd cluster. It must happen once in the life of one: it removes whatever data the machine has.
	Init Role = "init"
	// Join adds a learner to an etcd cluster.
	Join Role = "join"
	// Restore begins an etcd cluster with the data of a seed. It must happen while no member of the cluster before can answer.
	Restore Role = "restore"
)

// KeyPair is a certificate and its key, in PEM.
type KeyPair struct {
	Cert, Key []byte
}

// Seed is where a machine fetches the snapshot that it restores.
type Seed struct {
	// Host is the name in the server's certificate, Address the host:port at which the server is reached, and Path where the snapshot is.
	Host, Address, Path string
	// Certificate is the server's, in PEM, and Token what the machine shows to it.
	Certificate, Token string
	// SHA256 is the digest of the snapshot, in hexadecimal, and Cluster what makes the ID of the etcd cluster a new one.
	SHA256, Cluster string
}

// Member is the member that a machine is to become.
type Member struct {
	// Name is the Machine's, and the member's.
	Name string
	Role Role
	// Endpoints are URLs of healthy voters that it joins through; none for Init.
	Endpoints []string
	// SANs are names and addresses beside the machine's own that its server's certificate is good for.
	SANs []string
	// Authority signs the certificates that etcdadm makes. Its key must be RSA.
	Authority KeyPair
	// Client is what the machine joins with, and etcdctl on it uses.
	Client KeyPair
	// Seed is what a machine restores; nil for all roles but Restore.
	Seed *Seed
	// Spec is the configuration, valid and with the content of secrets in place of references to them.
	Spec *bootstrapv1alpha1.EtcdadmConfigSpec
}

//go:embed bootstrap.sh
var script string

// Where files lie on a machine.
const (
	pkiDir       = "/etc/etcd/pki/"
	authorityKey = pkiDir + "ca.key"
	clientKey    = pkiDir + "etcdctl-etcd-client.key"
	scriptDir    = "/etc/quorate/etcd/"
	scriptFile   = scriptDir + "bootstrap.sh"
	settingsFile = scriptDir + "settings.sh"
	proxyFile    = scriptDir + "proxy.sh"
	dropIn       = "/etc/systemd/system/etcd.service.d/10-quorate.conf"
	placeholder  = "/run/cluster-api/placeholder"

	seedCertificate = scriptDir + "seed.crt"
	seedToken       = scriptDir + "seed.token"
	startFile       = scriptDir + "start.sh"
	seedDropIn      = "/etc/systemd/system/etcd.service.d/20-quorate-seed.conf"
)

// startsSeed has etcd.service run what puts the restored data in their place before it becomes etcd. etcdadm removes all data before it
// starts the service, and an etcd without data would begin an empty cluster.
const startsSeed = "[Service]\nExecStart=\nExecStart=/bin/sh " + startFile + "\n"

//go:embed start.sh
var startScript string

// sentinel is how bootstrap data says that it succeeded, by Cluster API's contract.
const sentinel = "mkdir -p /run/cluster-api && echo success >/run/cluster-api/bootstrap-success.complete"

// joinSeconds is how long one attempt of etcdadm to join may take: it waits for ever while other members cannot be reached.
const joinSeconds = "120"

// cloudConfig is what cloud-init reads.
type cloudConfig struct {
	WriteFiles []file   `json:"write_files"`
	Users      []user   `json:"users,omitempty"`
	NTP        *ntp     `json:"ntp,omitempty"`
	RunCmd     []string `json:"runcmd"`
}

type file struct {
	Path        string `json:"path"`
	Owner       string `json:"owner,omitempty"`
	Permissions string `json:"permissions,omitempty"`
	Encoding    string `json:"encoding,omitempty"`
	Append      bool   `json:"append,omitempty"`
	Content     string `json:"content"`
}

type user struct {
	Name         string   `json:"name"`
	Gecos        string   `json:"gecos,omitempty"`
	Groups       string   `json:"groups,omitempty"`
	HomeDir      string   `json:"homedir,omitempty"`
	Inactive     *bool    `json:"inactive,omitempty"`
	Shell        string   `json:"shell,omitempty"`
	Passwd       string   `json:"passwd,omitempty"`
	PrimaryGroup string   `json:"primary_group,omitempty"`
	LockPassword *bool    `json:"lock_passwd,omitempty"`
	Sudo         string   `json:"sudo,omitempty"`
	Keys         []string `json:"ssh_authorized_keys,omitempty"`
}

type ntp struct {
	Enabled *bool    `json:"enabled,omitempty"`
	Servers []string `json:"servers,omitempty"`
}

// CloudConfig returns the bootstrap data of a machine.
func CloudConfig(m Member) ([]byte, error) {
	c := cloudConfig{WriteFiles: append(m.files(), given(m.Spec.Files)...), RunCmd: m.commands()}
	for _, u := range m.Spec.Users {
		c.Users = append(c.Users, user{
			Name: u.Name, Gecos: u.Gecos, Groups: u.Groups, HomeDir: u.HomeDir, Inactive: u.Inactive, Shell: u.Shell, Passwd: u.Passwd,
			PrimaryGroup: u.PrimaryGroup, LockPassword: u.LockPassword, Sudo: u.Sudo, Keys: u.SSHAuthorizedKeys,
		})
	}
	if n := m.Spec.NTP; n.Enabled != nil || len(n.Servers) > 0 {
		c.NTP = &ntp{Enabled: n.Enabled, Servers: n.Servers}
	}
	return c.text()
}

// text is the cloud-config as cloud-init reads it.
func (c cloudConfig) text() ([]byte, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing cloud-config: %w", err)
	}
	return append([]byte("#cloud-config\n"), text...), nil
}

// files are those that etcdadm and the script need.
func (m Member) files() []file {
	const secret, public = "0600", "0644"
	all := []file{
		{Path: pkiDir + "ca.crt", Permissions: public, Content: string(m.Authority.Cert)},
		{Path: authorityKey, Permissions: secret, Content: string(m.Authority.Key)},
		{Path: pkiDir + "etcdctl-etcd-client.crt", Permissions: public, Content: string(m.Client.Cert)},
		{Path: clientKey, Permissions: secret, Content: string(m.Client.Key)},
		{Path: dropIn, Permissions: public, Content: "[Service]\nEnvironmentFile=-/etc/etcd/quorate.env\n"},
		{Path: scriptFile, Permissions: "0700", Content: script},
		{Path: settingsFile, Permissions: secret, Content: m.settings()},
	}
	if s := m.Seed; s != nil {
		all = append(all,
			file{Path: seedCertificate, Permissions: public, Content: s.Certificate},
			file{Path: seedToken, Permissions: secret, Content: "Authorization: Bearer " + s.Token + "\n"},
			file{Path: startFile, Permissions: "0700", Content: startScript},
			file{Path: seedDropIn, Permissions: public, Content: startsSeed})
	}
	if text := m.proxy(); text != "" {
		all = append(all, file{Path: proxyFile, Permissions: secret, Content: text})
	}
	return append(all, file{Path: placeholder, Permissions: "0640", Content: "This placeholder file is used to create the folder for the " +
		"sentinel of Cluster API's bootstrap data.\n"})
}

// given are the user's files.
func given(files []bootstrapv1.File) []file {
	var all []file
	for _, f := range files {
		content, encoding := encoded(f)
		all = append(all, file{
			Path: f.Path, Owner: f.Owner, Permissions: f.Permissions, Encoding: encoding, Append: f.Append != nil && *f.Append, Content: content,
		})
	}
	return all
}

// encoded returns a file's content and its encoding as cloud-config, which is text, can hold them: a secret may hold any bytes.
func encoded(f bootstrapv1.File) (content, encoding string) {
	if plain(f.Content) {
		return f.Content, string(f.Encoding)
	}
	packed := base64.StdEncoding.EncodeToString([]byte(f.Content))
	switch f.Encoding {
	case "":
		return packed, string(bootstrapv1.Base64)
	case bootstrapv1.Gzip:
		return packed, string(bootstrapv1.GzipBase64)
	default:
		// Base64 is plain. This is not, and the machine reports it.
		return f.Content, string(f.Encoding)
	}
}

// plain reports whether YAML keeps a text as it is. It takes some characters that are not printed for the end of a line.
func plain(content string) bool {
	return utf8.ValidString(content) &&
		!strings.ContainsFunc(content, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' })
}

// settings are what the script is told. Everything that a user wrote is quoted for the shell.
func (m Member) settings() string {
	a := argsOf(m.Spec)
	if len(m.SANs) > 0 {
		a.certificate = append(a.certificate, "--server-cert-extra-sans", strings.Join(m.SANs, ","))
	}
	named := append([]string{"--name", m.Name, "--version", a.version}, a.install...)
	named = append(append(named, a.certificate...), a.log...)
	var b strings.Builder
	fmt.Fprintf(&b, "ROLE=%s\nNAME=%s\nVERSION=%s\nENDPOINTS=%s\n",
		quote(string(m.Role)), quote(m.Name), quote(a.version), quote(strings.Join(m.Endpoints, " ")))
	fmt.Fprintf(&b, "RELEASE_URL=%s\nCONNECT_SECONDS=%d\n", quote(a.releaseURL), a.connectSeconds)
	fmt.Fprintf(&b, "etcdadm_download() { etcdadm download --version %s%s; }\n", quote(a.version), quoted(a.download, a.log))
	fmt.Fprintf(&b, "etcdadm_init() { etcdadm init%s; }\n", quoted(named, a.download))
	// Its flags are those of init without the time for a download.
	fmt.Fprintf(&b, "etcdadm_join() { timeout %s etcdadm join \"$1\"%s; }\n", joinSeconds, quoted(named, a.release))
	if s := m.Seed; s != nil {
		fmt.Fprintf(&b, "SEED_HOST=%s\nSEED_ADDRESS=%s\nSEED_PATH=%s\nSEED_SHA256=%s\nSEED_CLUSTER=%s\nETCD=%s\n",
			quote(s.Host), quote(s.Address), quote(s.Path), quote(s.SHA256), quote(s.Cluster), quote(path.Join(a.folder, "etcd")))
	}
	return b.String()
}

// proxy is what sets the variables for downloads and commands; empty: there is no proxy.
func (m Member) proxy() string {
	p := m.Spec.Proxy
	var b strings.Builder
	for _, v := range []struct{ name, value string }{
		{"HTTP_PROXY", p.HTTPProxy}, {"HTTPS_PROXY", p.HTTPSProxy}, {"NO_PROXY", strings.Join(p.NoProxy, ",")},
	} {
		if v.value != "" {
			fmt.Fprintf(&b, "export %s=%s %s=%s\n", v.name, quote(v.value), strings.ToLower(v.name), quote(v.value))
		}
	}
	return b.String()
}

// commands are run one after the other, in one shell.
func (m Member) commands() []string {
	var all []string
	if m.proxy() != "" {
		all = append(all, ". "+proxyFile)
	}
	all = append(all, m.Spec.PreEtcdadmCommands...)
	all = append(all, m.Spec.EtcdadmInstallCommands...)
	all = append(all, scriptFile+" && "+sentinel)
	return append(all, m.Spec.PostEtcdadmCommands...)
}

// quoted are arguments for the shell, each after a blank.
func quoted(lists ...[]string) string {
	var b strings.Builder
	for _, list := range lists {
		for _, a := range list {
			b.WriteString(" " + quote(a))
		}
	}
	return b.String()
}

// quote has the shell take a text as it is.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// isSecret reports whether a file is of no use once a machine is a member, and opens etcd to its readers.
func isSecret(file string) bool {
	return file == authorityKey || file == clientKey || file == seedToken
}

// WithoutKeys returns bootstrap data without private keys, that of the authority and that of the machine's client
// certificate, and the token for a seed, and whether they had any. Each opens etcd, or its data, to a later reader. The rest stays: it
// shows what the machine was made from. WithoutKeys leaves data alone that Data has not made.
func WithoutKeys(data []byte) ([]byte, bool, error) {
	if strings.HasPrefix(string(data), "{") {
		return withoutIgnitionKeys(data)
	}
	var c cloudConfig
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return data, false, nil
	}
	kept := slices.DeleteFunc(slices.Clone(c.WriteFiles), func(f file) bool { return isSecret(f.Path) })
	if len(kept) == len(c.WriteFiles) {
		return data, false, nil
	}
	c.WriteFiles = kept
	text, err := c.text()
	return text, err == nil, err
}
