package group

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo tells which program runs.
var buildInfo = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
	Name:        "quorate_build_info",
	Help:        "1, with the version of Quorate, the revision of its source and the version of Go as labels.",
	ConstLabels: buildLabels(),
}, func() float64 { return 1 })

// buildLabels are what the program knows of itself; a label is empty where it does not.
func buildLabels() prometheus.Labels {
	labels := prometheus.Labels{"version": "", "revision": "", "goversion": ""}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return labels
	}
	labels["version"], labels["goversion"] = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			labels["revision"] = s.Value
		}
	}
	return labels
}
