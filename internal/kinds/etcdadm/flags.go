package etcdadm

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
)

// flag is one of etcdadm's that a user may give: what is wrong with a value; empty: nothing.
type flag func(value string) string

// accepted are the flags that a user may give, each with what its values are.
var accepted = map[string]flag{
	"version":                WrongVersion,
	"release-url":            wrongURL,
	"install-dir":            matches(`^(/[A-Za-z0-9._-]+)+/?$`, "an absolute path of letters, digits, dots and hyphens is accepted"),
	"server-cert-extra-sans": wrongSANs,
	"disk-priorities": matches(`^[A-Za-z]+=[-A-Za-z0-9]+(,[A-Za-z]+=[-A-Za-z0-9]+)*$`,
		"directives of systemd such as Nice=-10,IOSchedulingClass=best-effort are accepted"),
	"download-connect-timeout": wrongDuration,
	"log-level":                matches(`^(debug|info|warn|error|fatal|panic)$`, "debug, info, warn, error, fatal or panic is accepted"),
}

// reserved are the other flags of etcdadm, each with why it is not a user's to give.
var reserved = map[string]string{
	"name":            "a member has the name of its Machine",
	"certs-dir":       "certificates lie in /etc/etcd/pki",
	"retry":           "the script that calls etcdadm repeats it",
	"snapshot":        "an etcd cluster is not begun from a snapshot",
	"skip-hash-check": "an etcd cluster is not begun from a snapshot",
}

// Accepted are the names of the flags that a user may give, sorted.
func Accepted() []string {
	var names []string
	for name := range accepted {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func matches(pattern, otherwise string) flag {
	valid := regexp.MustCompile(pattern)
	return func(value string) string {
		if valid.MatchString(value) {
			return ""
		}
		return otherwise
	}
}

// etcdVersion is what a version of etcd that is supported looks like.
var etcdVersion = regexp.MustCompile(`^v?3\.([5-9]|[1-9][0-9]+)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// WrongVersion says why a text is no version of etcd that is supported; empty: it is.
func WrongVersion(value string) string {
	if etcdVersion.MatchString(value) {
		return ""
	}
	return "a version of etcd from 3.5 on is accepted, such as " + bootstrapv1alpha1.DefaultEtcdVersion
}

// A URL is split at blanks by etcdadm, and written into a file by a template for HTML.
var wrongURL = matches(`^https?://[A-Za-z0-9._~:/@%-]+$`, "a URL with http or https and without blanks, quotes and parameters is accepted")

func wrongSANs(value string) string {
	for _, name := range strings.Split(value, ",") {
		if wrong := WrongSAN(name); wrong != "" {
			return wrong
		}
	}
	return ""
}

// WrongSAN says why a name cannot be in a certificate; empty: it can.
func WrongSAN(name string) string {
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
		return fmt.Sprintf("%q is neither an address nor a DNS name", name)
	}
	return ""
}

func wrongDuration(value string) string {
	if d, err := time.ParseDuration(value); err != nil || d <= 0 {
		return "a duration such as 30s is accepted"
	}
	return ""
}

// Version is the version of etcd that a configuration asks for, without a leading v.
func Version(spec *bootstrapv1alpha1.EtcdadmConfigSpec) string {
	return strings.TrimPrefix(cmp.Or(spec.Version, spec.EtcdadmArgs["version"], bootstrapv1alpha1.DefaultEtcdVersion), "v")
}

// args are the flags that a configuration asks for, by the commands of etcdadm that know them.
type args struct {
	version string
	// releaseURL is where etcd comes from, and connectSeconds how long a connection to it may take.
	releaseURL     string
	connectSeconds int
	// folder is where etcd's programs are installed.
	folder string
	// release says where etcd comes from; download that, and how long a connection may take.
	release, download []string
	// install are of how etcd is installed, certificate of its certificates, log of etcdadm's own output.
	install, certificate, log []string
}

// What etcdadm v0.1.5 takes where a configuration says nothing: the address of releases, how long a connection to it may take, and where
// etcd's programs are installed.
const (
	installFolder  = "/opt/bin/"
	releases       = "https://github.com/coreos/etcd/releases/download"
	connectSeconds = 10
)

func argsOf(spec *bootstrapv1alpha1.EtcdadmConfigSpec) args {
	given := func(name string) []string {
		if value, ok := spec.EtcdadmArgs[name]; ok {
			return []string{"--" + name, value}
		}
		return nil
	}
	a := args{version: Version(spec), releaseURL: releases, connectSeconds: connectSeconds, log: given("log-level"),
		install: given("install-dir"), certificate: given("server-cert-extra-sans")}
	a.folder = cmp.Or(spec.EtcdadmArgs["install-dir"], installFolder)
	if url := cmp.Or(spec.ReleaseURL, spec.EtcdadmArgs["release-url"]); url != "" {
		a.release, a.releaseURL = []string{"--release-url", url}, url
	}
	if limit, err := time.ParseDuration(spec.EtcdadmArgs["download-connect-timeout"]); err == nil {
		a.connectSeconds = max(1, int(limit.Seconds()))
	}
	a.download = append(slices.Clone(a.release), given("download-connect-timeout")...)
	if priorities, ok := spec.EtcdadmArgs["disk-priorities"]; ok {
		for _, p := range strings.Split(priorities, ",") {
			a.install = append(a.install, "--disk-priorities", p)
		}
	}
	return a
}
