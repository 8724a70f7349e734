package plan

// EtcdComponent is the component of a machine that its member is.
const EtcdComponent = "etcd"

// AddMembersAsHosts tells of machines without Nodes what their members say: a machine is up when its member votes. That a member
// votes shows that an etcd cluster was begun, unless its machine is deleted while it begins: that one takes the cluster with it.
func (o *Observed) AddMembersAsHosts() {
	for i := range o.Machines {
		m := &o.Machines[i]
		for _, e := range o.Etcd.Members {
			if e.Machine != m.Name || e.Learner || e.Name == "" {
				continue
			}
			m.Host, m.UpSince, m.Ready = m.Name, m.Created, e.Health == Healthy
			m.Components = []Component{{Name: EtcdComponent, Health: e.Health, Why: e.Why}}
			if !o.Group.New || !m.Deleting {
				o.Group.Initialized, o.Group.New = true, false
			}
		}
	}
}
