package observe

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
)

// Machines without Nodes run a member of etcd and nothing else: what is known of them, the members say.

// seeNodeless adds what is known of machines without Nodes before etcd was asked: nothing but their Machines.
func (t *Observer) seeNodeless() Seen {
	t.AddWorkload(workload.View{Reachable: true}, []string{plan.EtcdComponent})
	t.addMachinesWanted()
	return Seen{t}
}

// memberTargets are the members on machines without Nodes, each of which has its machine's name.
func (o matching) memberTargets(to Dial) []etcd.Target {
	var targets []etcd.Target
	for _, m := range o.Machines {
		if ip := machine.InternalIP(m.Machine); ip != "" && !o.hasLeft(m) {
			targets = append(targets, to(m.Name, ip))
		}
	}
	slices.SortFunc(targets, func(a, b etcd.Target) int { return strings.Compare(a.Name, b.Name) })
	return targets
}

// dialDirectly is the way to a member at its machine's own address: there is no API server to go through.
func dialDirectly(name, ip string) etcd.Target {
	return etcd.Target{Name: name, Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(etcdPort)))
	}}
}
