// Package tenant holds the manager against a tenant who means harm: somebody with edit rights in one namespace, who writes into every field
// that names something what belongs to others. The API server's audit log is the judge: whatever the manager asks for outside of that
// namespace is a finding.
package tenant
