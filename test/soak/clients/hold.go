package clients

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/quorate/quorate/test/soak/history"
)

// The times of a lease, and how long a holder keeps it and then leaves it to others.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
	keeps         = 20 * time.Second
	leaves        = 12 * time.Second
)

// lease is the lease that all holders want.
const lease = "held"

// hold wants the lease, keeps it for a while, leaves it to others and wants it again. It is client-go's leader election, as controllers use
// it. Who stops of its own accord does not release the lease: client-go releases it before it says that it has stopped.
func (l *Load) hold(ctx context.Context, name string, c kubernetes.Interface) {
	every(ctx, retryPeriod, func(int) {
		during, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
		defer cancel()
		held := &holding{load: l, name: name}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: swapped, Name: lease}, Client: c.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(leading context.Context) {
					held.began()
					select {
					case <-leading.Done(): // it was lost, or the run ends
					case <-time.After(keeps):
					}
					held.ended()
					cancel()
				},
				OnStoppedLeading: held.ended,
			},
		})
		if err != nil {
			l.record.Write(history.Entry{Kind: history.Hold, Client: name, Object: lease, Begin: l.record.Now(), End: l.record.Now(),
				Outcome: history.Refused, Error: err.Error()})
			return
		}
		elector.Run(during)
		if held.was() {
			select {
			case <-ctx.Done():
			case <-time.After(leaves):
			}
		}
	})
}
