package embed

import (
	"fmt"
	"path/filepath"
)

// auditFile is the API server's audit log in the folder of logs, and auditPolicy what it holds: who asked for what, never
// what was sent or answered.
const (
	auditFile   = "audit.log"
	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  users: ["` + managerUser + `"]
- level: None
`
)

// How large the audit log may become, in MiB, and how many older ones are kept beside it.
const (
	auditSize    = 50
	auditBackups = 3
)

// AuditLogs are the audit logs of an environment that was started with Options.Audit, the newest last. They show what
// Quorate's own controllers use of their rights.
func AuditLogs(state string) ([]string, error) {
	folder := filepath.Join(state, "management", "logs")
	// Older ones have the time of their end in their names.
	older, err := filepath.Glob(filepath.Join(folder, "audit-*.log"))
	if err != nil {
		return nil, fmt.Errorf("looking for audit logs: %w", err)
	}
	return append(older, filepath.Join(folder, auditFile)), nil
}

func (p *plane) auditPolicy() string { return filepath.Join(p.dir, "audit-policy.yaml") }

// auditArgs are the API server's arguments for an audit log; none unless a user asked for one.
func (p *plane) auditArgs() []string {
	if !p.audit {
		return nil
	}
	return []string{
		"--audit-policy-file=" + p.auditPolicy(),
		"--audit-log-path=" + filepath.Join(p.logs(), auditFile),
		fmt.Sprintf("--audit-log-maxsize=%d", auditSize), fmt.Sprintf("--audit-log-maxbackup=%d", auditBackups),
	}
}
