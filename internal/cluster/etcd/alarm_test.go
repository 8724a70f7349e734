package etcd_test

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// TestAlarmsGoWithTheirMember: etcd keeps the alarm of a member that was removed, and refuses writes for it for ever.
func TestAlarmsGoWithTheirMember(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	gone := g.But(g.Leader())[0]
	stays := g.But(gone)
	raise := func(p *etcdtest.Process, alarm pb.AlarmType) {
		_, err := pb.NewMaintenanceClient(g.Leader().Connect()).Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE,
			MemberID: p.ID(), Alarm: alarm})
		etcdtest.Must(t, err)
	}
	raise(gone, pb.AlarmType_NOSPACE)
	raise(gone, pb.AlarmType_CORRUPT)
	raise(stays[1], pb.AlarmType_NOSPACE)
	id, other := gone.ID(), stays[1].ID()
	gone.Kill()
	for range 2 { // the second time there is neither the member nor its alarm
		etcdtest.Must(t, c.RemoveMember(t.Context(), stays.Targets(), id))
		left, err := pb.NewMaintenanceClient(stays[0].Connect()).Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
		etcdtest.Must(t, err)
		if len(left.Alarms) != 1 || left.Alarms[0].MemberID != other || left.Alarms[0].Alarm != pb.AlarmType_NOSPACE {
			t.Errorf("alarms are %v, want that of the member that stays alone", left.Alarms)
		}
	}
}
