// Package gauge is the metric that tells which program runs. It is apart from buildinfo for the sake of small programs without metrics.
package gauge

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/program/buildinfo"
)

// Register adds quorate_build_info to a registry. A second time does nothing.
func Register(to prometheus.Registerer) error {
	err := to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "quorate_build_info",
		Help:        "1, with the version of Quorate, the revision of its source, the date of that and the version of Go as labels.",
		ConstLabels: labels(buildinfo.Get()),
	}, func() float64 { return 1 }))
	if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
		return fmt.Errorf("registering quorate_build_info: %w", err)
	}
	return nil
}

// labels are what the program knows of itself; a label is empty where it does not.
func labels(i buildinfo.Info) prometheus.Labels {
	return prometheus.Labels{"version": i.Version, "revision": i.Revision, "date": i.Date, "goversion": i.Go}
}
