// Package joinfailure tells why a machine could not join its cluster. It knows what kubeadm and the kubelet print, and what to do about
// it; it does not know where that was read, or what becomes of the machine.
package joinfailure

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/plaintext"
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
	// CAHashMismatch: the cluster's authority is not the one that the machine was told to trust.
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
)

// all are the known causes.
var all = []Reason{
	TokenUnknown, TokenExpired, CAHashMismatch, VersionSkew, EndpointUnreachable, DiskFull, ClockSkew, CertificateExpired, CgroupDriverMismatch,
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

// sign is a text by which a cause is known.
type sign struct {
	reason  Reason
	pattern *regexp.Regexp
}

// lasting are signs of what does not pass by itself, whoever logs them.
var lasting = []sign{
	{DiskFull, regexp.MustCompile(`[Nn]o space left on device|[Dd]isk quota exceeded`)},
	{CgroupDriverMismatch, regexp.MustCompile(`cannot use systemd cgroups manager|expected cgroupsPath to be of format "slice:prefix:name"|` +
		`cgroup driver: .* is different from`)},
}

// signs are in the order of how surely they tell: of two in one text the first counts. Requests that fail come last, since each of
// the others may make them fail.
var signs = append(slices.Clone(lasting), []sign{
	{ClockSkew, regexp.MustCompile(`certificate has expired or is not yet valid`)},
	{CAHashMismatch, regexp.MustCompile(`none of the public keys .* are pinned|certificate signed by unknown authority`)},
	{VersionSkew, regexp.MustCompile(`this version of kubeadm only supports deploying clusters|is lower than kubeadm can support|` +
		`kubelet version is higher than the control plane version|configuration file uses an? \w+ API spec|is registered for version "kube(?:adm|let)\.`)},
	{TokenUnknown, regexp.MustCompile(`could not find a JWS signature in the cluster-info ConfigMap|failed to verify JWS signature|` +
		`token id "[^"]*" is invalid for this cluster|\bUnauthorized\b`)},
	// Requests to the API server only: images may be out of reach too, and the kubelet's own port.
	{EndpointUnreachable, regexp.MustCompile(`"https://[^"]*/apis?/[^"]*": .*(?:dial tcp|deadline exceeded|[Tt]imeout|connection reset|EOF)`)},
}...)

// Of tells why a machine could not join. What kubeadm said last counts most, then what the kubelet logged, then the disks.
func Of(f Facts) Failure {
	words := ""
	if f.isKubeadm() {
		words = lastWords(f.Log)
	}
	found, ok := find(words, signs)
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

// isKubeadm reports whether it is kubeadm that failed: what else prints the same words means something else by them.
func (f Facts) isKubeadm() bool { return strings.Contains(f.Command, "kubeadm") }

// beside looks for a cause beside kubeadm's last words. A kubelet logs requests that fail now and then while all is well: these tell only
// where it is the kubelet that kubeadm waited for, or that failed.
func (f Facts) beside(words string) (Failure, bool) {
	switch {
	case f.Command != "" && !f.isKubeadm():
		return find(f.Log, lasting)
	case words == "", strings.Contains(words, "kubelet"), strings.Contains(words, "TLS bootstrap"):
		return find(f.Kubelet, signs)
	default:
		return find(f.Kubelet, lasting)
	}
}

// find returns the surest sign in a text, in the last line that has it.
func find(text string, signs []sign) (Failure, bool) {
	lines := strings.Split(text, "\n")
	for _, s := range signs {
		for _, line := range slices.Backward(lines) {
			if s.pattern.MatchString(line) {
				return Failure{Reason: s.reason, Line: line}, true
			}
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
