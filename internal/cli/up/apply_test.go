package up

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/quorate/quorate/internal/cli/command"
)

// A change waits for the webhooks of a management cluster that comes up, as long as --timeout says, and for no other failure.
func TestChangeWaitsForWebhooks(t *testing.T) {
	silent := fmt.Errorf("applying Cluster home: %w", apierrors.NewInternalError(errors.New(`failed calling webhook `+
		`"default.cluster.x-k8s.io": connection refused`)))
	broken := apierrors.NewInternalError(errors.New("etcdserver: no space"))
	for _, tt := range []struct {
		name    string
		answers []error // the last one from then on
		tries   int
		code    int
		want    string
	}{
		{"answers at once", []error{nil}, 1, command.ExitOK, ""},
		{"answers later", []error{silent, silent, nil}, 3, command.ExitOK, ""},
		{"refuses later", []error{silent, command.Usagef("no")}, 2, command.ExitUsage, "no"},
		{"fails", []error{broken}, 1, command.ExitFailed, "no space"},
		{"never answers", []error{silent}, 11, command.ExitTimeout, "for 10.5s a webhook did not answer: applying Cluster home: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bringUp{up: &up{timeout: 10*time.Second + admissionInterval/2}}
				tries, said := 0, 0
				err := b.onceAdmitted(t.Context(), func(string) { said++ }, func() error {
					tries++
					return tt.answers[min(tries, len(tt.answers))-1]
				})
				if (err != nil) != (tt.want != "") || err != nil && (command.ExitCode(t.Context(), true, err) != tt.code ||
					!strings.Contains(err.Error(), tt.want)) {
					t.Errorf("error is %v, want %q with exit code %d", err, tt.want, tt.code)
				}
				if tries != tt.tries || said < tries-1 {
					t.Errorf("%d tries, said %d times, want %d tries", tries, said, tt.tries)
				}
			})
		})
	}
}
