package extension

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/quorate/quorate/internal/upgrade/runtimeclient"
)

// serve starts an extension and returns its ExtensionConfig.
func serve(t *testing.T, e *Extension) *runtimev1.ExtensionConfig {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.crt"), certificate, 0o600), os.WriteFile(filepath.Join(dir, "a.key"), key,
		0o600)); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := e.server(Options{Host: "127.0.0.1", Port: port, CertDir: dir, CertName: "a.crt", KeyName: "a.key"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return s.StartedChecker()(nil) == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	return &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "quorate"},
		Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig: runtimev1.ClientConfig{URL: fmt.Sprintf("https://127.0.0.1:%d", port), CABundle: certificate},
			Settings:     map[string]string{PolicySetting: "Only"},
		},
	}
}

// TestServed: what Cluster API's client discovers it can call, over TLS, and with the settings of the registration.
func TestServed(t *testing.T) {
	c := newClient(t, machineObject("m", "v1.36.3", true), configObject("m"))
	config := serve(t, &Extension{Client: c, APIReader: c})
	caller, err := runtimeclient.New(c)
	if err != nil {
		t.Fatal(err)
	}
	discovered, err := caller.Discover(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.WarmUp(&runtimev1.ExtensionConfigList{Items: []runtimev1.ExtensionConfig{*discovered}}); err != nil {
		t.Fatal(err)
	}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}, Spec: clusterv1.MachineSpec{Version: "v1.36.3"}}
	update := &runtimehooksv1.UpdateMachineResponse{}
	request := &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{Machine: *m}}
	if err := caller.CallAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, m, request, update); err != nil ||
		update.RetryAfterSeconds != retrySeconds {
		t.Errorf("UpdateMachine: %+v, %v", update, err)
	}
	can := &runtimehooksv1.CanUpdateMachineRequest{}
	can.Current.Machine.Spec.Version, can.Desired.Machine.Spec.Version = "v1.36.3", "v1.35.4"
	err = caller.CallExtension(t.Context(), runtimehooksv1.CanUpdateMachine, m, "can-update-machine.quorate", can,
		&runtimehooksv1.CanUpdateMachineResponse{})
	if err == nil || !strings.Contains(err.Error(), "policy Only") {
		t.Errorf("CanUpdateMachine back to an older version: %v", err)
	}
	set := &runtimehooksv1.CanUpdateMachineSetResponse{}
	if err := caller.CallExtension(t.Context(), runtimehooksv1.CanUpdateMachineSet, m, "can-update-machine-set.quorate",
		&runtimehooksv1.CanUpdateMachineSetRequest{}, set); err != nil {
		t.Error(err)
	}
}
