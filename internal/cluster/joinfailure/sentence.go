package joinfailure

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// smallSkew is how far two clocks may differ that are both right: kubeadm may have tried for minutes before it gave up.
const smallSkew = 10 * time.Minute

// conclude tells what the sign alone does not, and says what to do.
func (f Facts) conclude(found Failure) Failure {
	switch found.Reason {
	case TokenUnknown:
		found.Reason, found.Message = f.token(found.Line)
	case ClockSkew:
		found.Reason, found.Message = f.clock(found.Line)
	case DiskFull:
		found.Message = f.disk()
	case ImageUnavailable:
		found.Line = firstPull(found.Line)
		found.Message = plaintext.Shown(unavailable(found.Line))
	default:
		found.Message = sentences[found.Reason]
	}
	found.Line = shown(found.Line)
	return found
}

var sentences = map[Reason]string{
	CAHashMismatch: "the certificate authority that the endpoint shows is not the one that the machine is set to trust " +
		"(discovery.bootstrapToken.caCertHashes): " +
		"the hash or the endpoint is that of another cluster; correct it and replace the machine",
	VersionSkew: "the version of kubeadm or the kubelet on the machine does not fit the cluster, or the configuration that it was given: " +
		"make a machine of a version that the cluster supports",
	EndpointUnreachable: "the cluster's endpoint does not answer the machine: see whether its address " +
		"(discovery.bootstrapToken.apiServerEndpoint) is right, " +
		"and whether routes, firewalls and the load balancer let the machine through; then replace the machine",
	CgroupDriverMismatch: "the cgroup driver of the container runtime does not fit the kubelet or the machine: " +
		"set SystemdCgroup in the runtime's configuration and cgroupDriver in the kubelet's to the same, systemd only where systemd runs; then " +
		"replace the machine",
}

var tokenID = regexp.MustCompile(`token (?:ID|id) "([a-z0-9]{6})"`)

// token tells a token that has expired from one that the cluster never knew: only who saw it before can. A line without an ID speaks of
// the one that the machine has.
func (f Facts) token(line string) (Reason, string) {
	id, known := "", f.Token.ID
	if m := tokenID.FindStringSubmatch(line); m != nil {
		id = m[1]
	}
	over := !f.Token.Expires.IsZero() && !f.Ended.Before(f.Token.Expires)
	if known != "" && (id == "" || id == known) && over && !strings.Contains(line, "failed to verify") {
		return TokenExpired, fmt.Sprintf("the bootstrap token %q was valid when the machine got it, until %s, and had expired when kubeadm "+
			"used it: the machine came up too late; replace it, and give tokens a longer life if machines need that", known,
			f.Token.Expires.UTC().Format(time.RFC3339))
	}
	if id == "" {
		return TokenUnknown,
			"the cluster does not accept the machine's bootstrap token: it has another secret there, was never made, or is gone; " +
				"correct the token, or replace the machine if Cluster API made it"
	}
	return TokenUnknown, fmt.Sprintf("the cluster has no bootstrap token %q: it was never made there, was deleted, or had expired before "+
		"the machine got it; "+
		"correct the token, or replace the machine if Cluster API made it", id)
}

var validity = regexp.MustCompile(`current time (\S+) is (before|after) (\S+)`)

// clock tells a wrong clock from a certificate that is too old.
func (f Facts) clock(line string) (Reason, string) {
	m := validity.FindStringSubmatch(line)
	if m == nil {
		return ClockSkew, "a certificate is not valid at the time of the machine's clock: set the clocks by NTP, or renew the certificate; " +
			"then replace the machine"
	}
	shows, err := time.Parse(time.RFC3339, m[1])
	bound, errBound := time.Parse(time.RFC3339, strings.TrimRight(m[3], `",.`))
	if err != nil || errBound != nil {
		return ClockSkew, "a certificate is not valid at the time of the machine's clock: set the clocks by NTP, or renew the certificate; " +
			"then replace the machine"
	}
	if off := shows.Sub(f.Ended); !f.Ended.IsZero() && off.Abs() > smallSkew {
		return ClockSkew, fmt.Sprintf("the machine's clock is %s %s: set it by NTP, and replace the machine", off.Abs().Round(time.Minute),
			direction(off))
	}
	if m[2] == "after" {
		return CertificateExpired, fmt.Sprintf("a certificate of the cluster expired at %s: renew it, and replace the machine",
			bound.Format(time.RFC3339))
	}
	return ClockSkew, fmt.Sprintf("a certificate of the cluster becomes valid only %s after the time that the machine's clock shows: "+
		"this clock, or that of the machine that made the certificate, is wrong; set both by NTP, and replace the machine",
		bound.Sub(shows).Round(time.Minute))
}

func direction(off time.Duration) string {
	if off < 0 {
		return "behind"
	}
	return "ahead"
}

// disk names the disks that are full, where that is known.
func (f Facts) disk() string {
	where := "a disk of the machine is full"
	if f.Full != "" {
		where = "nothing can be written to " + f.Full + " on the machine, which is full"
	}
	return where + ": make machines with a larger disk, or find what fills it, and replace the machine"
}
