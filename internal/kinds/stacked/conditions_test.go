package stacked

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/status"
)

// fine returns a scene of three machines on which all is well.
func fine() *group.Turn {
	kcp := testKCP(3)
	kcp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	var machines []*clusterv1.Machine
	view := workload.View{Reachable: true}
	survey := etcd.Survey{Known: true, Agreed: true}
	for i, name := range []string{"m1", "m2", "m3"} {
		m := made(name + " node=" + name + " id=local://" + name)
		m.Spec.Version = "v1.36.3"
		machines = append(machines, m)
		node := testNode(name)
		node.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		view.Nodes = append(view.Nodes, node)
		view.Pods = append(view.Pods, testPods(name)...)
		survey.Members = append(survey.Members, etcd.Member{ID: uint64(i + 1), Name: name, Leader: i == 0, Health: plan.Healthy})
	}
	s := begin(kcp, testCluster(), machines, nil, time.Now())
	s.See(view)
	s.AddEtcd(survey, &observe.MemberTimes{}, time.Now())
	return s
}

// again reads the scene's facts again, after the test has changed the objects.
func renewed(s *group.Turn) *group.Turn {
	o := s.Facts
	n := begin(of(s.View), s.Cluster, s.Objects(), o.Workers, time.Now())
	n.Facts.Cluster.Template, n.Lacking = o.Cluster.Template, s.Lacking
	for i, m := range s.Machines {
		to := n.Machines[i]
		to.Read, to.Bootstrap, to.Infrastructure, to.Withdrawn = true, m.Bootstrap, m.Infrastructure, m.Withdrawn
	}
	n.See(s.Inside)
	n.AddEtcd(s.Survey, &observe.MemberTimes{}, time.Now())
	return n
}

// judged is a turn once the rules were asked.
func judged(s *group.Turn) *group.Turn {
	s.Assessed = plan.Assess(s.Facts)
	return s
}

// reported is what is reported of a turn, once the rules were asked.
func reported(s *group.Turn) status.Report { return status.Report{View: judged(s).View, Kind: New()} }

// told writes one condition as "Type=Status Reason: message".
func told(all []metav1.Condition, kind string) string {
	for _, c := range all {
		if c.Type == kind {
			text := string(c.Status) + " " + c.Reason
			if c.Message != "" {
				text += ": " + c.Message
			}
			return text
		}
	}
	return "absent"
}

var (
	waiting = plan.Decision{Step: plan.Step{Verb: plan.Wait}, Message: "the reason to wait"}
	acting  = plan.Decision{Step: plan.Step{Verb: plan.Create}, Message: "the reason to act"}
	longAgo = metav1.NewTime(time.Unix(1, 0))
)

func TestGroupConditions(t *testing.T) {
	tests := []struct {
		name   string
		change func(*group.Turn)
		d      plan.Decision
		want   map[string]string
	}{
		{"all is well", func(*group.Turn) {}, plan.Decision{Step: plan.Step{Verb: plan.Nothing}}, map[string]string{
			"Available": "True Available", "Initialized": "True Initialized", "CertificatesAvailable": "True Available",
			"EtcdClusterHealthy": "True Healthy", "ControlPlaneComponentsHealthy": "True Healthy", "RollingOut": "False NotRollingOut",
			"ScalingUp": "False NotScalingUp", "ScalingDown": "False NotScalingDown", "Remediating": "False NotRemediating",
			"Deleting": "False NotDeleting",
		}},
		{"not initialised", func(s *group.Turn) { of(s.View).Status.Initialization.ControlPlaneInitialized = nil }, waiting, map[string]string{
			"Available": "False NotAvailable: The control plane is not initialized yet", "Initialized": "False NotInitialized",
			"EtcdClusterHealthy":            "Unknown InspectionFailed: The control plane is not initialized yet",
			"ControlPlaneComponentsHealthy": "Unknown InspectionFailed: The control plane is not initialized yet",
		}},
		{"fewer machines than wanted, and more to come", func(s *group.Turn) { of(s.View).Spec.Replicas = ptr.To(int32(5)) }, acting,
			map[string]string{
				"ScalingUp": "True ScalingUp: Scaling up from 3 to 5 replicas",
			}},
		{"fewer machines than wanted, and a reason to wait", func(s *group.Turn) { of(s.View).Spec.Replicas = ptr.To(int32(5)) }, waiting,
			map[string]string{
				"ScalingUp": "True ScalingUp: Scaling up from 3 to 5 replicas waits:\n* the reason to wait",
			}},
		{"more machines than wanted", func(s *group.Turn) { of(s.View).Spec.Replicas = ptr.To(int32(1)) }, waiting, map[string]string{
			"ScalingDown": "True ScalingDown: Scaling down from 3 to 1 replicas waits:\n* the reason to wait",
		}},
		{"no template", func(s *group.Turn) { s.Facts.Cluster.Template = "it is not there" }, waiting, map[string]string{
			"ScalingUp": "False NotScalingUp: No machine could be added: it is not there",
		}},
		{"no authority", func(s *group.Turn) { s.Lacking = []string{"No secrets with the authorities for ca, sa"} }, waiting, map[string]string{
			"CertificatesAvailable": "False NotAvailable: No secrets with the authorities for ca, sa",
			"Available":             "False NotAvailable: * No secrets with the authorities for ca, sa",
		}},
		{"certificates not given, and broken ones", func(s *group.Turn) {
			s.Lacking = []string{"secret default/demo-sa lacks tls.key", "Secrets that only the user can give are missing, for etcd"}
		}, waiting, map[string]string{
			"CertificatesAvailable": "False NotAvailable: secret default/demo-sa lacks tls.key; Secrets that only the user can give are missing, " +
				"for etcd",
			"Available": "False NotAvailable: * secret default/demo-sa lacks tls.key\n* Secrets that only the user can give are missing, for etcd",
		}},
		{"a control plane Node without a machine", func(s *group.Turn) { s.Inside.Nodes = append(s.Inside.Nodes, testNode("alien")) }, waiting,
			map[string]string{
				"ControlPlaneComponentsHealthy": "False NotHealthy: * Control plane Node alien has no Machine",
			}},
		{"it may be that of a machine that joins", func(s *group.Turn) {
			s.Inside.Nodes[2].Name = "new"
			s.Machines[2].Machine = made("m3 ip=10.0.0.3")
		}, waiting, map[string]string{"ControlPlaneComponentsHealthy": "True Healthy"}},
		{"an API server fails", func(s *group.Turn) { s.Inside.Pods[1].Status.Conditions[0].Status = corev1.ConditionFalse }, waiting,
			map[string]string{
				"Available":                     "True Available: * 2 of 3 machines have all control plane components healthy",
				"ControlPlaneComponentsHealthy": "False NotHealthy: * m1: kube-apiserver: the pod is Running",
				"EtcdClusterHealthy":            "True Healthy",
			}},
		{"a kubelet is silent", func(s *group.Turn) { s.Inside.Nodes[1].Status.Conditions[0].Status = corev1.ConditionUnknown }, waiting,
			map[string]string{
				"ControlPlaneComponentsHealthy": "Unknown HealthUnknown: * m2: etcd: Node m2 does not report\n* m2: kube-apiserver: Node m2 does not " +
					"report\n* m2: kube-controller-manager: Node m2 does not report\n* m2: kube-scheduler: Node m2 does not report",
			}},
		{"a member fails", func(s *group.Turn) { s.Survey.Members[0].Health = plan.Unhealthy }, waiting, map[string]string{
			"Available": "True Available: * 2 of 3 etcd voters healthy, 2 needed\n* 2 of 3 machines have all control plane " +
				"components healthy",
			"EtcdClusterHealthy": "False NotHealthy: * member 1 (m1): does not answer, or follows no leader",
		}},
		{"the quorum is lost", func(s *group.Turn) {
			s.Survey.Members[0].Health, s.Survey.Members[1].Health = plan.Unhealthy, plan.Unknown
		}, waiting, map[string]string{
			"Available": "False NotAvailable: * 1 of 3 etcd voters healthy, 2 needed\n* 1 of 3 machines have all control plane " +
				"components healthy",
			"EtcdClusterHealthy": "False NotHealthy: * member 1 (m1): does not answer, or follows no leader\n* member 2 (m2): could not be asked",
		}},
		{"a learner does not count as a voter", func(s *group.Turn) { s.Survey.Members[2].Learner = true }, waiting, map[string]string{
			"Available":          "True Available: * 2 of 3 machines have all control plane components healthy",
			"EtcdClusterHealthy": "False NotHealthy: * member 3 (m3): is joining, and does not vote yet",
		}},
		{"alarm, stray and a machine without a member", func(s *group.Turn) {
			s.Survey.Members[0].Alarms = []string{"NOSPACE"}
			s.Survey.Members[2].Name = "gone"
		}, waiting, map[string]string{
			"EtcdClusterHealthy": "False NotHealthy: * member 1 (m1): raises the alarm NOSPACE\n* member 3 (gone): belongs to no machine\n* " +
				"machine m3 has no member",
		}},
		{"members disagree", func(s *group.Turn) { s.Survey.Agreed, s.Survey.Why = false, "2 lists" }, waiting, map[string]string{
			"EtcdClusterHealthy": "False NotHealthy: * the members contradict one another, or the machines: 2 lists",
		}},
		{"members are not known", func(s *group.Turn) { s.Survey = etcd.Survey{Why: "nobody answers"} }, waiting, map[string]string{
			"Available":          "Unknown InspectionFailed: The members of etcd are not known: nobody answers",
			"EtcdClusterHealthy": "Unknown InspectionFailed: nobody answers",
		}},
		{"out of reach for long", func(s *group.Turn) {
			s.Inside.Reachable, s.Inside.Why, s.Inside.Since = false, "refused", longAgo.Time
			s.Survey = etcd.Survey{}
		}, waiting, map[string]string{
			"Available":                     "Unknown InspectionFailed: The API server does not answer: refused",
			"ControlPlaneComponentsHealthy": "Unknown ConnectionDown: refused", "EtcdClusterHealthy": "Unknown ConnectionDown: refused",
		}},
		{"out of reach for a moment: what was told stays", func(s *group.Turn) {
			of(s.View).Status.Conditions = reported(s).Conditions(waiting, nil)
			s.Inside.Reachable, s.Inside.Since = false, time.Now()
			s.Survey = etcd.Survey{}
		}, waiting, map[string]string{
			"Available": "absent", "ControlPlaneComponentsHealthy": "absent", "EtcdClusterHealthy": "absent",
		}},
		{"being deleted, with workers", func(s *group.Turn) {
			of(s.View).DeletionTimestamp = &longAgo
			s.Facts.Workers = []string{"w"}
		}, waiting, map[string]string{
			"Deleting": "True WaitingForWorkersDeletion: the reason to wait", "Available": "False NotAvailable: The control plane is being deleted",
			"ScalingDown": "True ScalingDown: Scaling down from 3 to 0 replicas waits:\n* the reason to wait", "CertificatesAvailable": "absent",
		}},
		{"being deleted", func(s *group.Turn) { of(s.View).DeletionTimestamp = &longAgo }, waiting, map[string]string{
			"Deleting": "True WaitingForMachineDeletion: the reason to wait",
		}},
		{"deleted", func(s *group.Turn) { of(s.View).DeletionTimestamp = &longAgo; s.Machines = nil }, waiting, map[string]string{
			"Deleting": "True DeletionCompleted: the reason to wait", "MachinesReady": "True NoReplicas",
		}},
		{"external etcd is not judged", func(s *group.Turn) {
			of(s.View).Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://etcd:2379"}
			s.Survey = etcd.Survey{}
		}, waiting, map[string]string{
			"EtcdClusterHealthy": "absent", "Available": "True Available",
		}},
		{"an older machine", func(s *group.Turn) {
			s.Machines[0].Status.Conditions = []metav1.Condition{{Type: "UpToDate", Status: metav1.ConditionFalse,
				Message: "Version v1.35.4, v1.36.3 required"}}
		}, waiting, map[string]string{
			"RollingOut": "True RollingOut: 1 of 3 machines are not up to date:\n* m1: Version v1.35.4, v1.36.3 required",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := fine()
			test.change(s)
			s = renewed(s)
			all := reported(s).Conditions(test.d, nil)
			for kind, want := range test.want {
				if got := told(all, kind); got != want {
					t.Errorf("%s is\n%s\nwant\n%s", kind, got, want)
				}
			}
		})
	}
}

func TestMachineConditions(t *testing.T) {
	waitingFor := func(s *corev1.ContainerStatus, reason string) {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	}
	tests := []struct {
		name   string
		change func(*group.Turn)
		want   map[string]string
	}{
		{"all is well", func(*group.Turn) {}, map[string]string{
			"UpToDate": "True UpToDate", "APIServerPodHealthy": "True Running", "ControllerManagerPodHealthy": "True Running",
			"SchedulerPodHealthy": "True Running",
			"EtcdPodHealthy":      "True Running", "EtcdMemberHealthy": "True Healthy", "NodeKubeadmLabelsAndTaintsSet": "True Set",
		}},
		{"not initialised", func(s *group.Turn) { of(s.View).Status.Initialization.ControlPlaneInitialized = nil }, map[string]string{
			"APIServerPodHealthy": "Unknown InspectionFailed: Waiting for the control plane to be initialized",
			"EtcdMemberHealthy":   "Unknown InspectionFailed: Waiting for the control plane to be initialized",
		}},
		{"no provider ID", func(s *group.Turn) {
			s.Machines[0].Machine = made("m1")
			s.Machines[0].Spec.InfrastructureRef.Kind = "LocalMachine"
			s.Inside.Nodes = s.Inside.Nodes[1:]
		}, map[string]string{
			"APIServerPodHealthy": "Unknown InspectionFailed: Waiting for its Node", "EtcdMemberHealthy": "Unknown InspectionFailed: Waiting for " +
				"its Node",
			"NodeKubeadmLabelsAndTaintsSet": "Unknown InspectionFailed: Waiting for its Node",
		}},
		{"no Node", func(s *group.Turn) { s.Machines[0].Status.NodeRef.Name = ""; s.Inside.Nodes = s.Inside.Nodes[1:] }, map[string]string{
			"APIServerPodHealthy": "Unknown InspectionFailed: Waiting for its Node",
		}},
		{"the Node is gone", func(s *group.Turn) { s.Inside.Nodes = s.Inside.Nodes[1:] }, map[string]string{
			"APIServerPodHealthy": "Unknown InspectionFailed: Node m1 does not exist",
		}},
		{"a silent kubelet", func(s *group.Turn) { s.Inside.Nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown }, map[string]string{
			"APIServerPodHealthy": "Unknown InspectionFailed: Node m1 does not report", "EtcdMemberHealthy": "True Healthy",
		}},
		{"a pod is missing", func(s *group.Turn) { s.Inside.Pods = s.Inside.Pods[1:] },
			map[string]string{"EtcdPodHealthy": "False DoesNotExist: Pod does not exist"}},
		{"a pod starts", func(s *group.Turn) {
			pod := &s.Inside.Pods[1]
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			pod.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1)
			waitingFor(&pod.Status.ContainerStatuses[0], "ContainerCreating")
		}, map[string]string{"APIServerPodHealthy": "False Provisioning: ContainerCreating"}},
		{"a pod crashes", func(s *group.Turn) {
			pod := &s.Inside.Pods[1]
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			pod.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1)
			waitingFor(&pod.Status.ContainerStatuses[0], "CrashLoopBackOff")
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
		}, map[string]string{"APIServerPodHealthy": "False Failed: CrashLoopBackOff; ended with code 1 (Error)"}},
		{"being deleted", func(s *group.Turn) { s.Machines[0].DeletionTimestamp = &longAgo }, map[string]string{
			"APIServerPodHealthy": "False Deleting: Machine is deleting", "EtcdMemberHealthy": "False Deleting: Machine is deleting",
			"NodeKubeadmLabelsAndTaintsSet": "True Set",
		}},
		{"being deleted, Node gone", func(s *group.Turn) { s.Machines[0].DeletionTimestamp = &longAgo; s.Inside.Nodes = s.Inside.Nodes[1:] },
			map[string]string{
				"NodeKubeadmLabelsAndTaintsSet": "False Deleting: Machine is deleting",
			}},
		{"no member", func(s *group.Turn) { s.Survey.Members = s.Survey.Members[1:] },
			map[string]string{"EtcdMemberHealthy": "False NotHealthy: Etcd has no member for Node m1"}},
		{"a learner", func(s *group.Turn) { s.Survey.Members[0].Learner = true },
			map[string]string{"EtcdMemberHealthy": "False NotHealthy: Member 1 is joining, and does not vote yet"}},
		{"nobody could ask the member", func(s *group.Turn) { s.Survey.Members[0].Health = plan.Unknown },
			map[string]string{"EtcdMemberHealthy": "Unknown InspectionFailed: Member 1 could not be asked"}},
		{"etcd says why", func(s *group.Turn) {
			s.Survey.Members[0].Health, s.Survey.Members[0].Why = plan.Unhealthy, "does not answer: connection refused"
		}, map[string]string{"EtcdMemberHealthy": "False NotHealthy: Member 1 does not answer: connection refused"}},
		{"members are not known", func(s *group.Turn) { s.Survey = etcd.Survey{Why: "group.Silence"} },
			map[string]string{"EtcdMemberHealthy": "Unknown InspectionFailed: group.Silence"}},
		{"no label and no taint", func(s *group.Turn) {
			s.Inside.Nodes[0].Labels, s.Inside.Nodes[0].Spec.Taints = nil, nil
			s.Machines[0].Bootstrap = &bootstrapv1.KubeadmConfig{}
		}, map[string]string{
			"NodeKubeadmLabelsAndTaintsSet": "False NotSet: Node m1 does not have the label node-role.kubernetes.io/control-plane and the taint " +
				"node-role.kubernetes.io/control-plane:NoSchedule",
		}},
		{"no taint, as the user wants it", func(s *group.Turn) {
			s.Inside.Nodes[0].Spec.Taints = nil
			config := &bootstrapv1.KubeadmConfig{}
			config.Spec.InitConfiguration.NodeRegistration.Taints = &[]corev1.Taint{}
			s.Machines[0].Bootstrap = config
		}, map[string]string{"NodeKubeadmLabelsAndTaintsSet": "True Set"}},
		{"no taint on a machine that joined so, whatever the spec says now", func(s *group.Turn) {
			s.Inside.Nodes[0].Spec.Taints = nil
			config := &bootstrapv1.KubeadmConfig{}
			config.Spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
			config.Spec.JoinConfiguration.NodeRegistration.Taints = &[]corev1.Taint{}
			s.Machines[0].Bootstrap = config
			of(s.View).Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.Taints = nil
		}, map[string]string{"NodeKubeadmLabelsAndTaintsSet": "True Set"}},
		{"the Machine itself wants the taint", func(s *group.Turn) {
			s.Inside.Nodes[0].Spec.Taints = nil
			s.Machines[0].Spec.Taints = []clusterv1.MachineTaint{{Key: machine.NodeLabel, Effect: corev1.TaintEffectNoSchedule}}
		}, map[string]string{"NodeKubeadmLabelsAndTaintsSet": "False NotSet: Node m1 does not have the taint " +
			"node-role.kubernetes.io/control-plane:NoSchedule"}},
		{"an older version", func(s *group.Turn) { s.Machines[0].Spec.Version = "v1.35.4" },
			map[string]string{"UpToDate": "False NotUpToDate: spec.version: v1.35.4, wanted v1.36.3"}},
		{"out of reach for long", func(s *group.Turn) {
			s.Inside.Reachable, s.Inside.Why, s.Inside.Since = false, "refused", longAgo.Time
		}, map[string]string{"APIServerPodHealthy": "Unknown ConnectionDown: The API server does not answer: refused",
			"EtcdMemberHealthy": "Unknown ConnectionDown: The API server does not answer: refused"}},
		{"out of reach for a moment: what was told stays", func(s *group.Turn) {
			s.Inside.Reachable, s.Inside.Since = false, time.Now()
			s.Machines[0].Status.Conditions = reported(s).MachineConditions(s.Machines[0])
		}, map[string]string{
			"APIServerPodHealthy": "absent", "EtcdMemberHealthy": "absent", "UpToDate": "True UpToDate",
		}},
		{"out of reach for a moment: what was never told is told",
			func(s *group.Turn) { s.Inside.Reachable, s.Inside.Why, s.Inside.Since = false, "refused", time.Now() }, map[string]string{
				"APIServerPodHealthy": "Unknown ConnectionDown: The API server does not answer: refused",
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := fine()
			test.change(s)
			n := renewed(s)
			all := reported(n).MachineConditions(n.Machines[0])
			for kind, want := range test.want {
				if got := told(all, kind); got != want {
					t.Errorf("%s is\n%s\nwant\n%s", kind, got, want)
				}
			}
		})
	}
}

// TestEveryGateIsTold: a Machine is never Ready while a gate has no condition.
func TestEveryGateIsTold(t *testing.T) {
	for _, external := range []bool{false, true} {
		s := fine()
		if external {
			of(s.View).Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://etcd:2379"}
			s = renewed(s)
		}
		all := reported(s).MachineConditions(s.Machines[0])
		for _, gate := range New().InPlace(s.View, &observe.Machine{Machine: &clusterv1.Machine{}}).Machine.ReadinessGates {
			if told(all, gate.ConditionType) == "absent" {
				t.Errorf("external etcd %v: no condition for the gate %s", external, gate.ConditionType)
			}
		}
	}
}
