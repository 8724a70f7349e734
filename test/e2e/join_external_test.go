//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// joinExternal: the two layouts of KEP 15 for control planes whose etcd is elsewhere. In the static one all machines, whose names and
// addresses are known beforehand, share one serving certificate, and each advertises an address of its own. In the dynamic one all
// advertise the cluster's endpoint, which is refused where etcd runs on the machines.
//
//quorate:shows kubernetes created newer
func joinExternal(t *testing.T, e *environment) {
	began := e.beginShared(t, "sharing")
	e.sharesCertificate(t, "fixed")
	e.endShared(t, "sharing", began)
}

// advertise is the part of kubeadm's configurations with the address that an API server advertises.
func advertise(configuration, indent, address string) string {
	return "    " + configuration + ":\n" + indent + "localAPIEndpoint:\n" + indent + "  advertiseAddress: " + address + "\n"
}

// withEndpoint has the infrastructure of a cluster take an address for the endpoint that is known beforehand.
func withEndpoint(address string) []string {
	return []string{"  failureDomains:\n", "  controlPlaneEndpoint: {host: " + address + ", port: 6443}\n  failureDomains:\n"}
}

// beginShared has two machines made that both advertise the endpoint of their cluster. It returns when it began.
func (e *environment) beginShared(t *testing.T, name string) time.Time {
	t.Helper()
	gateway, port, endpoint := e.address("0.1"), freePort(t), e.address("0.91")
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer, append(withEndpoint(endpoint),
		clusterConfiguration, clusterConfiguration+externalEtcd(gateway, port),
		"    initConfiguration:\n", advertise("initConfiguration", "      ", endpoint),
		"    joinConfiguration:\n", advertise("joinConfiguration:\n      controlPlane", "        ", endpoint),
		"  replicas: 3\n", "  replicas: 2\n")...))
	e.runEtcd(t, name, gateway, port)
	return time.Now()
}

// endShared waits for these machines, and checks what they advertise, and that the same is refused with stacked etcd.
func (e *environment) endShared(t *testing.T, name string, began time.Time) {
	t.Helper()
	e.healthyWith(t, name, 2, nil)
	t.Logf("FIGURE two machines that advertise the endpoint of their cluster, beside others: %.1f s", time.Since(began).Seconds())
	endpoint := e.address("0.91")
	for _, m := range e.machines(t, name) {
		if got := e.advertised(t, m); got != endpoint {
			t.Errorf("%s advertises %s, want %s", m, got, endpoint)
		}
	}
	e.leadsTo(t, name, endpoint)

	stacked := e.controlPlane(t, name)
	stacked.Name, stacked.ResourceVersion, stacked.UID = name+"-stacked", "", ""
	stacked.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd = bootstrapv1.Etcd{}
	stacked.Spec.Replicas = new(int32(3))
	const words = "joinConfiguration.controlPlane.localAPIEndpoint.advertiseAddress: Invalid value"
	err := e.management(t).Create(context.Background(), stacked, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), words) ||
		!strings.Contains(err.Error(), "stacked etcd takes no two members with the same one") {
		t.Errorf("one address for all machines with stacked etcd: %v, want %s and the reason", err, words)
	}
	e.takeDown(t, name)
}

// sharesCertificate: three machines with names and addresses of a list, and a fourth that replaces one, have one serving certificate with
// the names of all, given as a file. One that lacks a name is refused before a machine is made.
func (e *environment) sharesCertificate(t *testing.T, name string) {
	t.Helper()
	gateway, port, endpoint := e.address("0.1"), freePort(t), e.address("0.92")
	var addresses, sans []string
	for n := range 4 {
		sans = append(sans, fmt.Sprintf("%s-cp-%d", name, n+1))
		if n < 3 {
			addresses = append(addresses, fmt.Sprintf("%s.9.%d", e.prefix(t), n+11))
		}
	}
	sans = append(sans, addresses...)
	known := append([]string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.96.0.1",
	}, sans...)
	ca := newPair(t, secret.ClusterCA)
	e.give(t, name, secret.ClusterCA, ca)
	e.giveServing(t, name, serverOf(t, ca, known))
	began := time.Now()
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer, append(withEndpoint(endpoint),
		"    spec: {}\n", "    spec:\n      addresses: ["+strings.Join(addresses, ", ")+"]\n",
		"  kubeadmConfigSpec:\n", oldFirst+"  kubeadmConfigSpec:\n",
		clusterConfiguration, clusterConfiguration+externalEtcd(gateway, port),
		"    files:\n", "    files:\n"+fileFrom(pkiFolder+"apiserver.crt", name+"-serving", "crt")+
			fileFrom(pkiFolder+"apiserver.key", name+"-serving", "key"),
		"    joinConfiguration:\n", advertise("joinConfiguration:\n      controlPlane", "        ", `"{{ ds.meta_data.local_ipv4 }}"`))...))
	e.runEtcd(t, name, gateway, port)
	e.refusesCertificates(t, name, "file "+pkiFolder+"apiserver.crt (secret default/"+name+"-serving: crt) is not for "+endpoint)
	serving := serverOf(t, ca, append(known, endpoint))
	e.giveServing(t, name, serving)
	given := map[string][]byte{"apiserver.crt": serving["tls.crt"], "apiserver.key": serving["tls.key"], "ca.crt": ca["tls.crt"]}
	e.healthyWith(t, name, 3, given)
	t.Logf("FIGURE three machines with fixed names, an external etcd and one serving certificate, beside others: %.1f s",
		time.Since(began).Seconds())
	e.serveExactly(t, name, addresses, sans)

	victim := e.machines(t, name)[0]
	deleteMachine(t, e, victim)
	want := []string{name + "-cp-2", name + "-cp-3", name + "-cp-4"}
	eventually(t, "another machine in place of "+victim, patience, func() string {
		if now := e.machines(t, name); !slices.Equal(now, want) {
			return fmt.Sprintf("%v: %s", now, e.controlPlane(t, name).Status.Plan.Message)
		}
		return ""
	})
	e.healthyWith(t, name, 3, given)
	e.serveExactly(t, name, addresses, sans)
	var all []string
	for _, m := range want {
		all = append(all, e.advertised(t, m))
	}
	if slices.Sort(all); !slices.Equal(all, addresses) {
		t.Errorf("the machines advertise %v, want %v", all, addresses)
	}
	e.leadsTo(t, name, addresses...)
	e.takeDown(t, name)
}

// giveServing writes the serving certificate of a cluster's API servers as a user does who copies it to the machines.
func (e *environment) giveServing(t *testing.T, name string, pair map[string][]byte) {
	t.Helper()
	e.writeSecret(t, name+"-serving", map[string][]byte{"crt": pair["tls.crt"], "key": pair["tls.key"]})
}

// advertised is the address that the API server of a machine advertises, as its own command line says.
func (e *environment) advertised(t *testing.T, machine string) string {
	t.Helper()
	const command = "tr '\\0' '\\n' </proc/$(pgrep -x kube-apiserver)/cmdline | grep advertise-address="
	out := e.quorate(t, "shell", machine, "--", "sh", "-c", command)
	return strings.TrimPrefix(strings.TrimSpace(out), "--advertise-address=")
}

// leadsTo waits until the Service of a cluster's API leads to these addresses, and to no other.
func (e *environment) leadsTo(t *testing.T, name string, addresses ...string) {
	t.Helper()
	c, _ := e.workload(t, name)
	eventually(t, "the Service kubernetes leads to "+strings.Join(addresses, ", "), patience, func() string {
		slice, err := c.DiscoveryV1().EndpointSlices("default").Get(context.Background(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		var all []string
		for _, one := range slice.Endpoints {
			all = append(all, one.Addresses...)
		}
		if slices.Sort(all); !slices.Equal(all, addresses) {
			return fmt.Sprint(all)
		}
		return ""
	})
}
