package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, args ...string) *settings {
	t.Helper()
	s := &settings{}
	fs := pflag.NewFlagSet("quorate-manager", pflag.ContinueOnError)
	s.add(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, err string }{
		{args: ""},
		{args: "--leader-elect --watch-filter=a --namespace=b --concurrency=3"},
		{args: "--concurrency=0", err: "--concurrency=0"},
		{args: "--sync-period=1s", err: "--sync-period=1s"},
		{args: "--kube-api-qps=0", err: "--kube-api-qps=0"},
		{args: "--kube-api-burst=0", err: "--kube-api-burst=0"},
		{args: "--webhook-port=9443"},
		{args: "--webhook-port=-1", err: "--webhook-port=-1"},
		{args: "--webhook-port=65536", err: "--webhook-port=65536"},
		{args: "--leader-elect --leader-elect-renew-deadline=1s", err: "renew deadline 1s"},
		{args: "--leader-elect --leader-elect-lease-duration=10s", err: "lease duration 10s"},
		{args: "--leader-elect-lease-duration=10s"},
	} {
		err := parse(t, strings.Fields(c.args)...).check()
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want one with %q", c.args, err, c.err)
		}
	}
}

func TestShardsHaveALeaseEach(t *testing.T) {
	names := map[string]bool{}
	for _, args := range []string{"--leader-elect", "--leader-elect --watch-filter=a", "--leader-elect --watch-filter=b"} {
		o, err := parse(t, strings.Fields(args)...).options()
		if err != nil {
			t.Fatal(err)
		}
		if !o.LeaderElection || names[o.LeaderElectionID] {
			t.Errorf("%s: lease %q, elected %t", args, o.LeaderElectionID, o.LeaderElection)
		}
		names[o.LeaderElectionID] = true
	}
}

func TestBadTLSVersion(t *testing.T) {
	if _, err := parse(t, "--tls-min-version=VersionTLS09").options(); err == nil {
		t.Error("an unknown TLS version is accepted")
	}
}

// TestDeployment keeps the arguments in config/ valid.
func TestDeployment(t *testing.T) {
	data, err := os.ReadFile("../../config/manager/manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(data, &d); err != nil {
		t.Fatal(err)
	}
	// clusterctl puts in what follows := where a variable is not set.
	variable := regexp.MustCompile(`\$\{\w+:=([^}]*)\}`)
	var args []string
	for _, a := range d.Spec.Template.Spec.Containers[0].Args {
		args = append(args, variable.ReplaceAllString(a, "$1"))
	}
	s := parse(t, args...)
	if err := s.check(); err != nil {
		t.Error(err)
	}
	if !s.elect || *d.Spec.Replicas < 2 {
		t.Errorf("%d replicas, elected %t", *d.Spec.Replicas, s.elect)
	}
	checkWebhooks(t, s, d.Spec.Template.Spec)
	if grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= s.gracePeriod {
		t.Errorf("it is killed after %s and may take %s to end", grace, s.gracePeriod)
	}
}

// checkWebhooks: the webhooks listen where the Service finds them, with the certificate that is mounted.
func checkWebhooks(t *testing.T, s *settings, pod corev1.PodSpec) {
	t.Helper()
	data, err := os.ReadFile("../../config/webhook/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var service corev1.Service
	if err := yaml.UnmarshalStrict(data, &service); err != nil {
		t.Fatal(err)
	}
	target := service.Spec.Ports[0].TargetPort.StrVal
	if !slices.ContainsFunc(pod.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return p.Name == target && p.ContainerPort == int32(s.webhookPort)
	}) {
		t.Errorf("the Service's port %q is none that listens at %d: %+v", target, s.webhookPort, pod.Containers[0].Ports)
	}
	if mounts := pod.Containers[0].VolumeMounts; len(mounts) != 1 || mounts[0].MountPath != s.webhookCert || mounts[0].Name != pod.Volumes[0].Name {
		t.Errorf("certificate in %s, mounted: %+v", s.webhookCert, mounts)
	}
}
