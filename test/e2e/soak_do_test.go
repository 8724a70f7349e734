//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/test/soak/report"
)

// soakOperation is what a user does to a control plane of three machines. It returns when all is as the user wants it.
type soakOperation struct {
	name string
	do   func(*soakRun) error
}

// soakFault is what happens to the cluster or its manager.
type soakFault struct {
	name string
	// bite begins it, and returns what proves that it bit. mend, if there is one, ends it, after a while if it lasts.
	bite  func(s *soakRun, victim clusterv1.Machine) (proof string, err error)
	mend  func(s *soakRun, victim clusterv1.Machine) error
	lasts bool
}

// soakOperations are all operations, in an order that seeds rely on.
var soakOperations = []soakOperation{
	{"scale", func(s *soakRun) error { return errors.Join(s.insists("--replicas", "5"), s.insists("--replicas", "3")) }},
	{"template", (*soakRun).otherTemplate},
	{"version", func(s *soakRun) error {
		s.version = newer
		return s.insists("--kubernetes-version", newer)
	}},
	{"argument", func(s *soakRun) error { return s.givesArgument("Never") }},
	{"in-place", func(s *soakRun) error { return s.givesArgument("Preferred") }},
	{"repair", (*soakRun).repaired},
	{"replace", (*soakRun).replacedOne},
	{"backup", func(s *soakRun) error {
		return s.soon(func() error {
			_, err := s.try("backup", "now", soakName)
			return err
		})
	}},
}

// soakFaults are all faults, in an order that seeds rely on.
var soakFaults = []soakFault{
	{"power-off", func(s *soakRun, m clusterv1.Machine) (string, error) { return s.hit("stop", m) },
		func(s *soakRun, m clusterv1.Machine) error { return s.mends("start", m) }, true},
	{"freeze", func(s *soakRun, m clusterv1.Machine) (string, error) { return s.hit("pause", m) },
		func(s *soakRun, m clusterv1.Machine) error { return s.mends("resume", m) }, true},
	{"cut", func(s *soakRun, m clusterv1.Machine) (string, error) { return s.hit("partition", m) },
		func(s *soakRun, m clusterv1.Machine) error { return s.mends("heal", m) }, true},
	{"kill-machine", func(s *soakRun, m clusterv1.Machine) (string, error) { return s.hit("stop", m) },
		func(s *soakRun, m clusterv1.Machine) error { return s.asksForRepair(m.Name) }, true},
	{"kill-daemon", (*soakRun).killsDaemon, func(s *soakRun, _ clusterv1.Machine) error {
		return s.soon(func() error { return s.upTo("--wait=false") })
	}, false},
	{"edits", (*soakRun).edits, nil, false},
	{"stray-member", (*soakRun).addsMember, nil, false},
	{"node-deleted", (*soakRun).deletesNode, (*soakRun).registersAgain, true},
	{report.Alone, func(*soakRun, clusterv1.Machine) (string, error) { return "nothing happens", nil }, nil, false},
}

// upTo is quorate up.
func (s *soakRun) upTo(args ...string) error {
	_, err := s.try(append([]string{"up", "--network", s.network, "--name", soakName, "--backup", "@daily"}, args...)...)
	return err
}

// insists is quorate up by a user who gives the same command again when it fails, as it does when the management plane goes away.
func (s *soakRun) insists(args ...string) error {
	return s.within(10*time.Minute, func() error { return s.upTo(append(args, "--timeout", "10m")...) })
}

// objectNamed is the metadata of an object in the namespace of the cluster.
func objectNamed(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

// alters changes the control plane as a user does. It tries again while the management plane is away.
func (s *soakRun) alters(f func(*controlplanev1.KubeadmControlPlane)) error {
	return s.soon(func() error {
		c, err := s.plane()
		if err != nil {
			return err
		}
		kcp, err := s.wanted(c)
		if err != nil {
			return err
		}
		before := kcp.DeepCopy()
		f(kcp)
		return c.Patch(context.Background(), kcp, client.MergeFrom(before))
	})
}

// soon tries until there is no error, for a minute.
func (s *soakRun) soon(f func() error) error { return s.within(time.Minute, f) }

// within tries until there is no error, for some time.
func (s *soakRun) within(limit time.Duration, f func() error) error {
	end := time.Now().Add(limit)
	for {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
		<-time.After(500 * time.Millisecond)
	}
}

// rests waits until the control plane says that all is as wanted.
func (s *soakRun) rests() error {
	return s.within(10*time.Minute, func() error {
		c, err := s.plane()
		if err != nil {
			return err
		}
		kcp, err := s.wanted(c)
		if err != nil {
			return err
		}
		if p := kcp.Status.Plan; kcp.Status.ObservedGeneration != kcp.Generation || p.Step != string(plan.Nothing) || p.Reason != "AsWanted" {
			return errors.New(p.Reason + ": " + p.Message)
		}
		return nil
	})
}

// otherTemplate replaces all machines by such of another template.
func (s *soakRun) otherTemplate() error {
	name := fmt.Sprintf("%s-template-%d", soakName, s.number)
	if err := s.soon(func() error {
		c, err := s.plane()
		if err != nil {
			return err
		}
		made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{}}}}}
		made.SetGroupVersionKind(infrav1.GroupVersion.WithKind("LocalMachineTemplate"))
		made.SetNamespace("default")
		made.SetName(name)
		return client.IgnoreAlreadyExists(c.Create(context.Background(), made))
	}); err != nil {
		return err
	}
	if err := s.alters(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = name
	}); err != nil {
		return err
	}
	return s.rests()
}

// givesArgument gives all API servers another argument, in place or by other machines.
func (s *soakRun) givesArgument(inPlace string) error {
	if err := s.upTo("--in-place="+inPlace, "--wait=false"); err != nil {
		return err
	}
	value := fmt.Sprintf("%dm", 60+s.number)
	if err := s.alters(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: eventTTL, Value: &value}}
	}); err != nil {
		return err
	}
	err := s.rests()
	return errors.Join(err, s.soon(func() error { return s.upTo("--in-place=Never", "--wait=false") }))
}

// oldestMachine is the oldest machine, by name.
func (s *soakRun) oldestMachine() (string, error) {
	c, err := s.plane()
	if err != nil {
		return "", err
	}
	machines, err := s.controlPlaneMachines(c)
	if err == nil && len(machines) == 0 {
		err = errors.New("there is no machine")
	}
	if err != nil {
		return "", err
	}
	return machines[0].Name, nil
}

// repaired marks a machine, as a person does who wants another one.
func (s *soakRun) repaired() error {
	m, err := s.oldestMachine()
	if err == nil {
		err = s.asksForRepair(m)
	}
	if err != nil {
		return err
	}
	return s.replacedAway(m)
}

// replacedAway waits until a machine is gone, and all is as wanted.
func (s *soakRun) replacedAway(name string) error {
	if err := s.within(10*time.Minute, func() error {
		c, err := s.plane()
		if err != nil {
			return err
		}
		err = c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, &clusterv1.Machine{})
		if err == nil {
			return fmt.Errorf("machine %s is there", name)
		}
		return client.IgnoreNotFound(err)
	}); err != nil {
		return err
	}
	return s.rests()
}

// asksForRepair marks a machine, unless it is gone.
func (s *soakRun) asksForRepair(name string) error {
	return s.soon(func() error {
		c, err := s.plane()
		if err != nil {
			return err
		}
		m := &clusterv1.Machine{}
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, m); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := m.DeepCopy()
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.RemediateMachineAnnotation, "")
		return c.Patch(context.Background(), m, client.MergeFrom(before))
	})
}

// replacedOne asks for another machine in place of the oldest, as quorate replace does.
func (s *soakRun) replacedOne() error {
	m, err := s.oldestMachine()
	if err != nil {
		return err
	}
	if err := s.alters(func(kcp *controlplanev1.KubeadmControlPlane) {
		metav1.SetMetaDataAnnotation(&kcp.ObjectMeta, controlplanev1.ReplaceAnnotation, m+"="+time.Now().UTC().Format(time.RFC3339))
	}); err != nil {
		return err
	}
	return s.replacedAway(m)
}

// silent says why nobody answers on a machine; nil: its API server does.
func silent(m *clusterv1.Machine) error {
	ip := machine.InternalIP(m)
	if ip == "" {
		return errors.New("it has no address")
	}
	c := http.Client{Timeout: 1500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := c.Get("https://" + ip + ":6443/livez")
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// hit puts a fault into a machine that serves, and returns what its API server answers then.
func (s *soakRun) hit(fault string, m clusterv1.Machine) (string, error) {
	if m.Name == "" {
		return "", errors.New("no machine serves")
	}
	if _, err := s.try("machine", fault, m.Name); err != nil {
		return "", err
	}
	for range 20 {
		if err := silent(&m); err != nil {
			return err.Error(), nil
		}
	}
	return "", fmt.Errorf("the API server of %s answers", m.Name)
}

// mends ends the fault of a machine.
func (s *soakRun) mends(by string, m clusterv1.Machine) error {
	return s.onMachine(m, "machine", by, m.Name)
}

// onMachine runs a command on a machine, unless that is gone.
func (s *soakRun) onMachine(m clusterv1.Machine, args ...string) error {
	_, err := s.try(args...)
	if err == nil {
		return nil
	}
	c, planeErr := s.plane()
	if planeErr != nil {
		return errors.Join(err, planeErr)
	}
	if apierrors.IsNotFound(c.Get(context.Background(), client.ObjectKeyFromObject(&m), &clusterv1.Machine{})) {
		return nil
	}
	return err
}

// killsDaemon kills the management plane's process.
func (s *soakRun) killsDaemon(clusterv1.Machine) (string, error) {
	text, err := os.ReadFile(s.state + "/daemon.pid")
	if err != nil {
		return "", err
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		return "", err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d is gone", pid), s.soon(func() error {
		if syscall.Kill(pid, 0) == nil {
			return fmt.Errorf("process %d is there", pid)
		}
		return nil
	})
}

// edits changes the spec every 3 s, ten times.
func (s *soakRun) edits(clusterv1.Machine) (string, error) {
	generation := func() (int64, error) {
		c, err := s.plane()
		if err != nil {
			return 0, err
		}
		kcp, err := s.wanted(c)
		if err != nil {
			return 0, err
		}
		return kcp.Generation, nil
	}
	before, err := generation()
	if err != nil {
		return "", err
	}
	for n := range int32(10) {
		if err := s.alters(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.MachineTemplate.Spec.Deletion.NodeDeletionTimeoutSeconds = ptr.To(20 + n%2)
		}); err != nil {
			return "", err
		}
		<-time.After(3 * time.Second)
	}
	after, err := generation()
	if err == nil && after < before+9 {
		err = fmt.Errorf("the generation was %d and is %d", before, after)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the generation was %d and is %d", before, after), nil
}

// addsMember adds a learner to etcd by hand that nothing starts.
func (s *soakRun) addsMember(m clusterv1.Machine) (string, error) {
	if m.Name == "" {
		return "", errors.New("no machine serves")
	}
	url := fmt.Sprintf("https://203.0.113.%d:2380", 1+s.number%250)
	if _, err := s.try("shell", m.Name, "--", "sh", "-c", etcdctl+"member add stray --learner --peer-urls "+url); err != nil {
		return "", err
	}
	members, err := s.members(m.Name)
	if err == nil && !slices.ContainsFunc(members, func(m member) bool { return m.IsLearner && m.Name == "" }) {
		err = fmt.Errorf("the members are %v", members)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("etcd on %s lists %d members", m.Name, len(members)), nil
}

// deletesNode deletes the Node of a machine.
func (s *soakRun) deletesNode(m clusterv1.Machine) (string, error) {
	if m.Name == "" {
		return "", errors.New("no machine serves")
	}
	api, err := s.api()
	if err != nil {
		return "", err
	}
	if err := api.CoreV1().Nodes().Delete(context.Background(), m.Name, metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	_, err = api.CoreV1().Nodes().Get(context.Background(), m.Name, metav1.GetOptions{})
	if err == nil {
		err = fmt.Errorf("node %s is there", m.Name)
	}
	if !apierrors.IsNotFound(err) {
		return "", err
	}
	return err.Error(), nil
}

// registersAgain restarts the kubelet of a machine that lost its Node, unless the machine is gone: it registers when it starts.
func (s *soakRun) registersAgain(m clusterv1.Machine) error {
	return s.onMachine(m, "shell", m.Name, "--", "systemctl", "restart", "kubelet")
}
