package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// raised are the alarms that a member raised, as all who answered tell them.
func raised(answers []answer, id uint64) []pb.AlarmType {
	types := map[pb.AlarmType]bool{}
	for _, a := range answers {
		if a.status == nil {
			continue
		}
		alarms, _ := reported(a.cluster(), []answer{a})
		for _, name := range alarms[id] {
			if kind, known := pb.AlarmType_value[name]; known {
				types[pb.AlarmType(kind)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// disarm ends alarms of a member. etcd keeps those of a member that is removed, and while one is
// active all members refuse writes: for NOSPACE what adds data, for CORRUPT all. Nothing else would end them.
func (c *Cluster) disarm(ctx context.Context, by Target, id uint64, alarms []pb.AlarmType) error {
	for _, alarm := range alarms {
		err := c.order(ctx, by, func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := pb.NewMaintenanceClient(conn).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: id, Alarm: alarm})
			return err
		})
		if err != nil {
			return fmt.Errorf("disarming its alarm %s: %w", alarm, err)
		}
	}
	return nil
}
