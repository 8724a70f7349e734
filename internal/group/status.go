package group

// Report is what is reported of a group: its conditions, those of its Machines, and its status. It is computed of what was seen and decided alone.
type Report struct {
	*View
	Kind ReportedKind
}
