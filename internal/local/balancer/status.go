package balancer

import (
	"strings"
	"time"
)

// Status is what the process tells about itself. It is the content of the status file, as JSON.
type Status struct {
	// PID is the process that wrote it.
	PID int `json:"pid"`
	// Listen is the address on which connections are taken; empty before and after.
	Listen string `json:"listen,omitempty"`
	// Error is why the process cannot do what its configuration says; empty: it can.
	Error string `json:"error,omitempty"`
	// Backends are those of the configuration, and those that left it and still have connections, by name.
	Backends []BackendStatus `json:"backends,omitempty"`
}

// Health is what probes found.
type Health string

// The values of Health.
const (
	// Unknown: not asked yet.
	Unknown Health = "Unknown"
	// Healthy: it said so when it was asked last.
	Healthy Health = "Healthy"
	// Failing: the last probe failed, too few to call it dead. New connections go elsewhere, if there is one.
	Failing Health = "Failing"
	// Unhealthy: so many probes in a row failed that its connections are moved.
	Unhealthy Health = "Unhealthy"
)

// BackendStatus is how one backend does.
type BackendStatus struct {
	Name     string `json:"name"`
	Address  string `json:"address"`
	Health   Health `json:"health"`
	Draining bool   `json:"draining,omitempty"`
	// Removed: it is no longer in the configuration and goes as soon as its connections have.
	Removed bool `json:"removed,omitempty"`
	// Connections are those that are open through the endpoint.
	Connections int `json:"connections"`
	// Since is when Health became what it is.
	Since time.Time `json:"since"`
	// Why is what the last probe found, when it failed.
	Why string `json:"why,omitempty"`
}

// StatusFile is the status file of a configuration file: beside it, with .status before the extension.
func StatusFile(configFile string) string {
	return strings.TrimSuffix(configFile, ".json") + ".status.json"
}

// ReadStatus reads the status that belongs to a configuration file. The error wraps fs.ErrNotExist while there is none.
func ReadStatus(configFile string) (Status, error) {
	var s Status
	err := readJSON(StatusFile(configFile), &s)
	return s, err
}

// Backend returns the status of the backend of that name, and whether there is one.
func (s Status) Backend(name string) (BackendStatus, bool) {
	for _, b := range s.Backends {
		if b.Name == name {
			return b, true
		}
	}
	return BackendStatus{}, false
}

// Drained reports whether waiting for the backend of that name has an end: nothing is connected to it through the
// endpoint and nothing will be, or its connections have no other backend to go to.
func (s Status) Drained(name string) bool {
	elsewhere, open := false, 0
	for _, b := range s.Backends {
		switch {
		case b.Name == name && !b.isLeaving():
			return false
		case b.Name == name:
			open += b.Connections
		case !b.isLeaving() && b.Health == Healthy:
			elsewhere = true
		}
	}
	return open == 0 || !elsewhere
}

// isLeaving reports whether a backend gets no new connections while there is another.
func (b BackendStatus) isLeaving() bool { return b.Draining || b.Removed }
