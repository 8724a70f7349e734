package etcdcluster

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// handOver tells of the members, and where a control plane reaches them.
func handOver(t *observe.View, status *v1alpha1.EtcdClusterStatus) {
	status.Members = strings.Join(memberURLs(t, isMember), ",")
	if status.InitMachineAddress == "" {
		status.InitMachineAddress = firstAddress(t)
	}
	switch static := endpoint(t); {
	case static != "" && reachedAt(t, staticHost(t)):
		status.Endpoints = static
	case static == "" && atRest(t):
		status.Endpoints = status.Members
	case replacedAll(t) && (static == "" || t.Facts.Want.Refused.Reason == notFollowed):
		// Of a static endpoint that a member beside them cannot be reached at: a client that is led there would refuse its certificate.
		status.Endpoints = strings.Join(memberURLs(t, isUpToDate), ",")
	}
	// Once a control plane may use it, it stays ready: what it waits for from then on, the conditions say.
	if t.Assessed.Complete() >= t.Facts.Want.Replicas && status.Endpoints != "" {
		status.Ready = ptr.To(true)
	}
}

// atRest reports whether the members' own addresses can be handed over: they are those that are wanted and stay, so that a control
// plane follows a rollout once and not with every member. A refused spec replaces no machine. Before it is known whether the infrastructure
// offers an endpoint, as after a move, nothing is handed over.
func atRest(t *observe.View) bool {
	outdated := slices.ContainsFunc(t.Facts.Machines, func(m plan.Machine) bool { return m.Outdated != "" })
	refused := t.Facts.Want.Refused.Reason
	return offerKnown(t) && t.Assessed.Settled && len(t.Machines) == t.Facts.Want.Replicas &&
		(!outdated || refused != "" && refused != notFollowed)
}

// replacedAll reports whether the members that stay after a rollout are all there, beside the last of those that they replace: a
// control plane follows them now, while there is one left that it knows. Where it must have followed before another can be made,
// those that are there are all that can be.
func replacedAll(t *observe.View) bool {
	staying := 0
	for _, m := range t.Machines {
		switch {
		case m.Facts.Deleting || m.Facts.Outdated != "":
		case !m.Facts.Ready:
			return false
		default:
			staying++
		}
	}
	return offerKnown(t) && staying > 0 && (staying == t.Facts.Want.Replicas || t.Facts.Want.Refused.Reason == notFollowed)
}

// isMember reports whether a machine stays that has a member that votes and answers.
func isMember(m *observe.Machine) bool { return m.Facts.Ready && !m.Facts.Deleting }

// isUpToDate reports whether it will not be replaced either.
func isUpToDate(m *observe.Machine) bool { return isMember(m) && m.Facts.Outdated == "" }

// memberURLs are the URLs of the members on some machines, by the machines' age.
func memberURLs(t *observe.View, which func(*observe.Machine) bool) []string {
	var urls []string
	for _, m := range t.Machines {
		if url := memberURL(m); url != "" && which(m) {
			urls = append(urls, url)
		}
	}
	return urls
}

// memberURL is the URL of the member on a machine; empty: it has no address.
func memberURL(m *observe.Machine) string {
	if ip := machine.InternalIP(m.Machine); ip != "" {
		return urlOf(ip)
	}
	return ""
}

// urlOf is the URL of a host, with etcd's port unless it has one.
func urlOf(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return "https://" + host
	}
	return "https://" + net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(v1alpha1.ClientPort))
}

// staticEndpoints are the URLs under which all members are reached, the one that is used first: the user's, and what the
// infrastructure offers.
func staticEndpoints(t *observe.View) []string {
	var urls []string
	for _, host := range []string{of(t).Spec.Endpoint, memoryOf(t.Memory).endpoint} {
		if host != "" {
			urls = append(urls, urlOf(host))
		}
	}
	return urls
}

// endpoint is the URL under which all members are reached; empty: there is none.
func endpoint(t *observe.View) string {
	if all := staticEndpoints(t); len(all) > 0 {
		return all[0]
	}
	return ""
}

// staticHost is the name or address in endpoint; empty: there is none.
func staticHost(t *observe.View) string {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(endpoint(t), "https://"))
	if err != nil {
		return ""
	}
	return host
}

// reachedAt reports whether the certificates of all members are good for a host.
func reachedAt(t *observe.View, host string) bool {
	return !slices.ContainsFunc(t.Machines, func(m *observe.Machine) bool {
		config, _ := m.Bootstrap.(*bootstrapv1alpha1.EtcdadmConfig)
		return isMember(m) && config != nil && !isCertified(config, host)
	})
}

// isCertified reports whether the certificate of a machine's member is good for a host. Of who was made before that was recorded, it
// is believed: endpoints were in the certificates from the beginning.
func isCertified(config *bootstrapv1alpha1.EtcdadmConfig, host string) bool {
	names, recorded := config.Annotations[bootstrapv1alpha1.ServerNamesAnnotation]
	return !recorded || slices.Contains(strings.Split(names, ","), host)
}
