// Package joinfailure tells why a machine could not join its cluster. It knows what kubeadm and the kubelet print, and what to do about
// it; it does not know where that was read, or what becomes of the machine.
package joinfailure

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// Reason is a cause for which a machine cannot join, as a word for programs: the reason of a condition.
type Reason string

// The causes. Unknown is none of the others.
const (
	// Unknown: nothing that the machine left behind tells.
	Unknown Reason = ""
	// TokenUnknown: the cluster does not know the bootstrap token.
	TokenUnknown Reason = "TokenUnknown"
	// TokenExpired: the cluster knew the bootstrap token when the machine got it, and no more when kubeadm used it.
	TokenExpired Reason = "TokenExpired"
	// CAHashMismatch: the cluster's authority is not the one that the machine is set to trust.
	CAHashMismatch Reason = "CAHashMismatch"
	// VersionSkew: kubeadm or the kubelet on the machine is too old or too new for the cluster or for the machine's data.
	VersionSkew Reason = "VersionSkew"
	// EndpointUnreachable: the cluster's endpoint does not answer the machine.
	EndpointUnreachable Reason = "EndpointUnreachable"
	// DiskFull: nothing can be written to a disk of the machine any more.
	DiskFull Reason = "DiskFull"
	// ClockSkew: a certificate is not valid at the time that the machine's clock shows, because one of two clocks is wrong.
	ClockSkew Reason = "ClockSkew"
	// CertificateExpired: a certificate of the cluster has expired, and the machine's clock is right.
	CertificateExpired Reason = "CertificateExpired"
	// CgroupDriverMismatch: the container runtime or the kubelet uses a cgroup driver that does not fit the machine, or one another.
	CgroupDriverMismatch Reason = "CgroupDriverMismatch"
	// ImageUnavailable: a registry does not deliver an image that the machine needs; the message names the registry and why.
	ImageUnavailable Reason = "ImageUnavailable"
)

// all are the known causes.
var all = []Reason{
	TokenUnknown, TokenExpired, CAHashMismatch, VersionSkew, EndpointUnreachable, DiskFull, ClockSkew, CertificateExpired,
	CgroupDriverMismatch,
	ImageUnavailable,
}

// IsReason reports whether the reason of a condition is one of the causes.
func IsReason(reason string) bool { return slices.Contains(all, Reason(reason)) }

// Facts are what a machine left behind that could not join. Each may be missing.
type Facts struct {
	// Command is the one that failed; empty: none did.
	Command string
	// Log is the end of what it printed.
	Log string
	// Kubelet are the last errors that the kubelet logged; see Errors.
	Kubelet string
	// Full are the file systems of the machine to which nothing can be written.
	Full string
	// Token is the bootstrap token that the cluster knew when the machine got its data.
	Token Token
	// Ended is when the attempt ended, by a clock that is right.
	Ended time.Time
}

// Token is a bootstrap token, without its secret.
type Token struct {
	// ID is the part before the dot; empty: the cluster knew none.
	ID string
	// Expires is when it did, as was known when it was looked at.
	Expires time.Time
}

// Failure is why a machine could not join.
type Failure struct {
	Reason Reason
	// Message is a sentence for people: what it was, and what to do.
	Message string
	// Line is the line of a log that tells, without secrets; empty: no log does. Of an unknown cause it is the first check that failed, or the
	// error with which kubeadm ended.
	Line string
}

// sign is a text by which a cause is known. Its pattern also matches what the line is about: a registry, a webhook or a proxy fails in the
// same words as the cluster's endpoint.
type sign struct {
	reason  Reason
	pattern *regexp.Regexp
	// but matches lines with these words that are about something else; nil: there are none.
	but *regexp.Regexp
}

// A request to the API server, from which what follows is told. Each sentence of a request ends before the next quoted text.
const (
	clusterCall = `(?:"https://[^"/]*/apis?/[^"]*"|failed to request the cluster-info ConfigMap): [^"]*`
	bootstrap   = `(?:failed to get config map|cannot create certificate signing request): `
)

// relayed matches what the API server says about something that it called itself, what a proxy did, and the wait for the API server that
// the machine itself runs, which is not yet the cluster.
var relayed = regexp.MustCompile(`webhook|Internal error occurred|proxyconnect|wait-control-plane`)

// lasting are signs of what does not pass by itself, in the log of any program.
var lasting = []sign{
	// Linux also reports a limit on watches, on control groups or on BPF programs as a lack of space.
	{DiskFull, regexp.MustCompile(`[Nn]o space left on device|[Dd]isk quota exceeded`),
		regexp.MustCompile(`webhook|Internal error occurred|i?notify|/sys/|/proc/|/dev/mqueue|bpf`)},
	{CgroupDriverMismatch, regexp.MustCompile(`cannot use systemd cgroups manager|expected cgroupsPath to be of format "slice:prefix:name"|` +
		`cgroup driver: .* is different from`), nil},
}

// certain are signs in the order of how surely they tell: of two in one text the first counts.
var certain = append(slices.Clone(lasting), []sign{
	{ClockSkew, regexp.MustCompile(clusterCall + `certificate has expired or is not yet valid`), relayed},
	{CAHashMismatch, regexp.MustCompile(`none of the public keys .* are pinned|` + clusterCall + `certificate signed by unknown authority`),
		relayed},
	{VersionSkew, regexp.MustCompile(`this version of kubeadm only supports deploying clusters|is lower than kubeadm can support|` +
		`kubelet version is higher than the control plane version|configuration file uses an? \w+ API spec|is registered for version ` +
		`"kube(?:adm|let)\.`), nil},
	{TokenUnknown, regexp.MustCompile(`could not find a JWS signature in the cluster-info ConfigMap|failed to verify JWS signature|` +
		`token id "[^"]*" is invalid for this cluster|` + bootstrap + `Unauthorized\b`), relayed},
}...)

// unreachable is a sign of requests to the API server that fail. It comes last, since each other cause may make them fail.
var unreachable = sign{EndpointUnreachable,
	regexp.MustCompile(clusterCall + `(?:dial tcp|deadline exceeded|[Tt]imeout|connection reset|EOF)`), relayed}

// Of tells why a machine could not join. What kubeadm said last counts most, then what the kubelet logged, then the disks.
func Of(f Facts) Failure {
	words := ""
	if f.isKubeadm() {
		words = lastWords(f.Log)
	}
	found, ok := inWords(words)
	if !ok {
		found, ok = f.beside(words)
	}
	switch {
	case ok:
		return f.conclude(found)
	case f.Full != "":
		return f.conclude(Failure{Reason: DiskFull})
	default:
		return Failure{Line: shown(firstLine(words))}
	}
}

// inWords returns the cause that kubeadm's last words tell.
func inWords(words string) (Failure, bool) {
	if found, ok := find(words, certain); ok {
		return found, true
	}
	if found, ok := findImage(words, imageLine); ok {
		return found, true
	}
	return find(words, []sign{unreachable})
}

// isKubeadm reports whether it is kubeadm that failed: what else prints the same words means something else by them.
func (f Facts) isKubeadm() bool { return strings.Contains(f.Command, "kubeadm") }

// beside looks for a cause beside kubeadm's last words. A kubelet logs requests that fail now and then while all is well: these tell only
// where it is the kubelet that kubeadm waited for, or that failed. Its failed pulls tell only where kubeadm waited for what they keep from
// starting: no kubelet ends because of one.
func (f Facts) beside(words string) (Failure, bool) {
	ofKubelet := strings.Contains(words, "kubelet") || strings.Contains(words, "TLS bootstrap")
	switch {
	case f.Command != "" && !f.isKubeadm():
		return find(f.Log, lasting)
	case words == "", ofKubelet:
		return find(f.Kubelet, append(slices.Clone(certain), unreachable))
	}
	found, ok := find(f.Kubelet, lasting)
	if !ok && strings.Contains(words, "wait-control-plane") {
		return findImage(f.Kubelet, controlPlaneImage)
	}
	return found, ok
}

// find returns the surest sign in a text, in the last line that has it. A line about an image tells only of the machine, and not of the
// cluster.
func find(text string, signs []sign) (Failure, bool) {
	lines := strings.Split(text, "\n")
	for _, s := range signs {
		for _, line := range slices.Backward(lines) {
			if s.matches(line) {
				return Failure{Reason: s.reason, Line: line}, true
			}
		}
	}
	return Failure{}, false
}

func (s sign) matches(line string) bool {
	if s.but != nil && s.but.MatchString(line) || !s.pattern.MatchString(line) {
		return false
	}
	return s.reason == DiskFull || s.reason == CgroupDriverMismatch || !imageLine.MatchString(line)
}

// findImage returns the last line about an image that a registry does not deliver, of those that match which.
func findImage(text string, which *regexp.Regexp) (Failure, bool) {
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		if which.MatchString(line) && unavailable(line) != "" {
			return Failure{Reason: ImageUnavailable, Line: line}, true
		}
	}
	return Failure{}, false
}

// lastWords are the error with which kubeadm ended and, before it, the checks that failed. What it printed before may have been of the
// moment, and after it comes a stack trace, if anything.
func lastWords(log string) string {
	lines := strings.Split(log, "\n")
	for i, line := range slices.Backward(lines) {
		if !strings.HasPrefix(line, "error: ") && !strings.HasPrefix(line, "error execution phase ") {
			continue
		}
		words := slices.DeleteFunc(lines[:i+1], func(l string) bool { return l != line && !strings.HasPrefix(strings.TrimSpace(l), "[ERROR ") })
		return strings.Join(words, "\n")
	}
	return ""
}

// firstLine is the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// longestLine is the most bytes of a line that are shown: a request and why it failed.
const longestLine = 600

// shown is a line that anybody may read. Secrets are taken out before it is cut: half a token would not be known for one.
func shown(line string) string {
	return plaintext.Beginning(strings.TrimSpace(plaintext.Shown(line)), longestLine)
}
