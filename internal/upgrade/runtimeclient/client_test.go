package runtimeclient

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	upstream "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const (
	discovery = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"
	update    = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/"
)

// answers are what a server says, by path, with what it was sent.
type answers map[string]func(body map[string]any) (int, any)

func says(v any) func(map[string]any) (int, any) {
	return func(map[string]any) (int, any) { return http.StatusOK, v }
}

// serve starts a server and returns the ExtensionConfig of it.
func serve(t *testing.T, name string, a answers) *runtimev1.ExtensionConfig {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := a[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("request for %s: %v", r.URL, err)
		}
		if r.URL.Query().Get("timeout") == "" || r.Method != http.MethodPost {
			t.Errorf("request %s %s", r.Method, r.URL)
		}
		status, v := f(body)
		if status == http.StatusFound {
			http.Redirect(w, r, fmt.Sprint(v), status)
			return
		}
		w.WriteHeader(status)
		if text, isText := v.(string); isText {
			_, _ = io.WriteString(w, text)
			return
		}
		_ = json.NewEncoder(w).Encode(v)
	}))
	t.Cleanup(s.Close)
	return &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{
			URL: s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		}},
	}
}

// updates is an ExtensionConfig with handlers of the hook UpdateMachine.
func updates(config *runtimev1.ExtensionConfig, policy runtimev1.FailurePolicy, handlers ...string) *runtimev1.ExtensionConfig {
	for _, h := range handlers {
		config.Status.Handlers = append(config.Status.Handlers, runtimev1.ExtensionHandler{
			Name: h + "." + config.Name, TimeoutSeconds: 5, FailurePolicy: policy,
			RequestHook: runtimev1.GroupVersionHook{APIVersion: runtimehooksv1.GroupVersion.String(), Hook: "UpdateMachine"},
		})
	}
	return config
}

func ready(t *testing.T, configs ...*runtimev1.ExtensionConfig) *Client {
	t.Helper()
	namespaces := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}}).Build()
	c, err := New(namespaces)
	if err != nil {
		t.Fatal(err)
	}
	list := &runtimev1.ExtensionConfigList{}
	for _, config := range configs {
		list.Items = append(list.Items, *config)
	}
	if err := c.WarmUp(list); err != nil {
		t.Fatal(err)
	}
	return c
}

var machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}}

func handlerOf(name, version, hook string) runtimehooksv1.ExtensionHandler {
	return runtimehooksv1.ExtensionHandler{Name: name,
		RequestHook: runtimehooksv1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/" + version, Hook: hook}}
}

func TestDiscover(t *testing.T) {
	ok := runtimehooksv1.CommonResponse{Status: runtimehooksv1.ResponseStatusSuccess}
	patient := handlerOf("b", "v1alpha1", "CanUpdateMachine")
	patient.TimeoutSeconds, patient.FailurePolicy = ptr.To[int32](30), ptr.To(runtimehooksv1.FailurePolicyIgnore)
	tooPatient, odd := handlerOf("a", "v1alpha1", "UpdateMachine"), handlerOf("a", "v1alpha1", "UpdateMachine")
	tooPatient.TimeoutSeconds, odd.FailurePolicy = ptr.To[int32](31), ptr.To[runtimehooksv1.FailurePolicy]("Maybe")
	for _, c := range []struct {
		name     string
		response runtimehooksv1.DiscoveryResponse
		want     []runtimev1.ExtensionHandler
		err      string
	}{
		{name: "defaults, and none", want: []runtimev1.ExtensionHandler{
			{Name: "a.ext", TimeoutSeconds: 10, FailurePolicy: "Fail",
				RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "UpdateMachine"}},
			{Name: "b.ext", TimeoutSeconds: 30, FailurePolicy: "Ignore",
				RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "CanUpdateMachine"}},
		}, response: runtimehooksv1.DiscoveryResponse{CommonResponse: ok,
			Handlers: []runtimehooksv1.ExtensionHandler{handlerOf("a", "v1alpha1", "UpdateMachine"), patient}}},
		{name: "nothing", response: runtimehooksv1.DiscoveryResponse{CommonResponse: ok}, want: []runtimev1.ExtensionHandler{}},
		{name: "failure", response: runtimehooksv1.DiscoveryResponse{CommonResponse: runtimehooksv1.CommonResponse{Status: "Failure",
			Message: "not today"}}, err: "not today"},
		{name: "no status", err: `it answered ""`},
		{name: "twice", response: runtimehooksv1.DiscoveryResponse{CommonResponse: ok,
			Handlers: []runtimehooksv1.ExtensionHandler{handlerOf("a", "v1alpha1", "UpdateMachine"),
				handlerOf("a", "v1alpha1", "CanUpdateMachine")}}, err: "two handlers of the name a"},
		{name: "a bad name", response: runtimehooksv1.DiscoveryResponse{CommonResponse: ok,
			Handlers: []runtimehooksv1.ExtensionHandler{handlerOf("a.b", "v1alpha1", "UpdateMachine")}}, err: `"a.b"`},
		{name: "no such hook", response: runtimehooksv1.DiscoveryResponse{CommonResponse: ok,
			Handlers: []runtimehooksv1.ExtensionHandler{handlerOf("a", "v1alpha1", "DoMagic")}}, err: "DoMagic"},
		{name: "no such version", response: runtimehooksv1.DiscoveryResponse{CommonResponse: ok,
			Handlers: []runtimehooksv1.ExtensionHandler{handlerOf("a", "v9", "UpdateMachine")}}, err: "v9/UpdateMachine"},
		{name: "too patient", response: runtimehooksv1.DiscoveryResponse{CommonResponse: ok,
			Handlers: []runtimehooksv1.ExtensionHandler{tooPatient}}, err: "31"},
		{name: "an odd policy", response: runtimehooksv1.DiscoveryResponse{CommonResponse: ok, Handlers: []runtimehooksv1.ExtensionHandler{odd}},
			err: "Maybe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := serve(t, "ext", answers{discovery: says(c.response)})
			got, err := ready(t).Discover(t.Context(), config)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "ExtensionConfig ext") {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got.Status.Handlers, c.want) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestRegistry(t *testing.T) {
	c, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, machine); !errors.Is(err, errNotReady) || c.IsReady() {
		t.Fatalf("before the warm-up: %v, ready %t", err, c.IsReady())
	}
	elsewhere := updates(serve(t, "elsewhere", nil), "Fail", "u")
	elsewhere.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	here := updates(serve(t, "here", nil), "Fail", "z", "b")
	here.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	all := updates(serve(t, "all", nil), "Fail", "x")
	c = ready(t, elsewhere, here, all)
	names := func() string {
		t.Helper()
		got, err := c.GetAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, machine)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, " ")
	}
	if got := names(); got != "b.here x.all z.here" || !c.IsReady() {
		t.Errorf("handlers %q", got)
	}
	if got, err := c.GetAllExtensions(t.Context(), runtimehooksv1.CanUpdateMachine, machine); err != nil || len(got) != 0 {
		t.Errorf("of a hook that nobody serves: %v, %v", got, err)
	}
	here.Status.Handlers = here.Status.Handlers[:1]
	if err := errors.Join(c.Register(here), c.Unregister(all), c.Unregister(all)); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "z.here" {
		t.Errorf("handlers %q", got)
	}
	unknown := machine.DeepCopy()
	unknown.Namespace = "unknown"
	if _, err := c.GetAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, unknown); err == nil ||
		!strings.Contains(err.Error(), "namespace unknown") {
		t.Errorf("in a namespace that is not there: %v", err)
	}
	err = c.CallExtension(t.Context(), runtimehooksv1.UpdateMachine, machine, "u.elsewhere", &runtimehooksv1.UpdateMachineRequest{},
		&runtimehooksv1.UpdateMachineResponse{})
	if err == nil || !strings.Contains(err.Error(), "excludes namespace default") {
		t.Errorf("called for a namespace that it is not for: %v", err)
	}
	for name, bad := range map[string]func(*runtimev1.ExtensionConfig){
		"https":    func(e *runtimev1.ExtensionConfig) { e.Spec.ClientConfig.URL = "http://127.0.0.1" },
		"service":  func(e *runtimev1.ExtensionConfig) { e.Spec.ClientConfig.URL = "" },
		"caBundle": func(e *runtimev1.ExtensionConfig) { e.Spec.ClientConfig.CABundle = []byte("no PEM") },
		"hook":     func(e *runtimev1.ExtensionConfig) { e.Status.Handlers[0].RequestHook.APIVersion = "a/b/c" },
		"namespaceSelector": func(e *runtimev1.ExtensionConfig) {
			e.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
		},
	} {
		config := here.DeepCopy()
		bad(config)
		if err := c.Register(config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("registered with a bad %s: %v", name, err)
		}
	}
	if got := names(); got != "z.here" {
		t.Errorf("after refused registrations: handlers %q", got)
	}
}

func TestAddressOfService(t *testing.T) {
	c := ready(t)
	gvh, err := c.catalog.GroupVersionHook(runtimehooksv1.UpdateMachine)
	if err != nil {
		t.Fatal(err)
	}
	for want, service := range map[string]runtimev1.ServiceReference{
		"https://s.n.svc" + update + "u?timeout=5s":             {Name: "s", Namespace: "n"},
		"https://s.n.svc:8443/prefix" + update + "u?timeout=5s": {Name: "s", Namespace: "n", Port: ptr.To[int32](8443), Path: "/prefix/"},
	} {
		if got, err := address(runtimev1.ClientConfig{Service: service}, gvh, "u", 5*time.Second); err != nil || got.String() != want {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
}

func TestCallExtension(t *testing.T) {
	success := runtimehooksv1.CommonResponse{Status: runtimehooksv1.ResponseStatusSuccess, Message: "good"}
	moved := serve(t, "moved", answers{update + "u": says(success)})
	for _, c := range []struct {
		name          string
		answer        func(map[string]any) (int, any)
		message       string
		err           string // of policy Fail
		alsoIfIgnored bool
	}{
		{name: "success", answer: says(success), message: "good"},
		{name: "failure", answer: says(runtimehooksv1.CommonResponse{Status: "Failure", Message: "why"}), err: "why", alsoIfIgnored: true},
		{name: "an unknown status", answer: says(runtimehooksv1.CommonResponse{Status: "Odd"}), err: "Odd", alsoIfIgnored: true},
		{name: "an error", answer: func(map[string]any) (int, any) {
			return http.StatusInternalServerError, "token: abcdef.0123456789abcdef"
		}, err: "500"},
		{name: "no response", answer: says("<html>"), err: "decoding"},
		{name: "elsewhere", answer: func(map[string]any) (int, any) { return http.StatusFound, moved.Spec.ClientConfig.URL + update + "u" },
			err: "302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, policy := range []runtimev1.FailurePolicy{runtimev1.FailurePolicyFail, runtimev1.FailurePolicyIgnore} {
				config := updates(serve(t, "ext", answers{update + "u": c.answer}), policy, "u")
				response := &runtimehooksv1.UpdateMachineResponse{}
				err := ready(t, config).CallExtension(t.Context(), runtimehooksv1.UpdateMachine, machine, "u.ext",
					&runtimehooksv1.UpdateMachineRequest{}, response)
				if fails := c.err != "" && (policy == runtimev1.FailurePolicyFail || c.alsoIfIgnored); fails {
					if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "u.ext") ||
						strings.Contains(err.Error(), "0123456789abcdef") {
						t.Errorf("policy %s: %v, want an error with %q", policy, err, c.err)
					}
					continue
				}
				if err != nil || response.Status != runtimehooksv1.ResponseStatusSuccess || response.Message != c.message {
					t.Errorf("policy %s: %v, %+v", policy, err, response)
				}
			}
		})
	}
}

// TestUntrustedServer: a server whose certificate another authority signed gets nothing.
func TestUntrustedServer(t *testing.T) {
	real := updates(serve(t, "ext", answers{update + "u": func(map[string]any) (int, any) {
		t.Error("it was called")
		return http.StatusOK, runtimehooksv1.CommonResponse{Status: runtimehooksv1.ResponseStatusSuccess}
	}}), "Fail", "u")
	real.Spec.ClientConfig.CABundle = nil // the host's authorities
	err := ready(t, real).CallExtension(t.Context(), runtimehooksv1.UpdateMachine, machine, "u.ext", &runtimehooksv1.UpdateMachineRequest{},
		&runtimehooksv1.UpdateMachineResponse{})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v, want one about the certificate", err)
	}
}

func TestWrongCalls(t *testing.T) {
	c := ready(t, updates(serve(t, "ext", nil), "Ignore", "u"))
	for name, call := range map[string]func() error{
		"no such handler": func() error {
			return c.CallExtension(t.Context(), runtimehooksv1.UpdateMachine, machine, "v.ext", &runtimehooksv1.UpdateMachineRequest{},
				&runtimehooksv1.UpdateMachineResponse{})
		},
		"another hook": func() error {
			return c.CallExtension(t.Context(), runtimehooksv1.CanUpdateMachine, machine, "u.ext", &runtimehooksv1.CanUpdateMachineRequest{},
				&runtimehooksv1.CanUpdateMachineResponse{})
		},
		"the request of another hook": func() error {
			return c.CallExtension(t.Context(), runtimehooksv1.UpdateMachine, machine, "u.ext", &runtimehooksv1.CanUpdateMachineRequest{},
				&runtimehooksv1.UpdateMachineResponse{})
		},
		"the response of another hook": func() error {
			return c.CallExtension(t.Context(), runtimehooksv1.UpdateMachine, machine, "u.ext", &runtimehooksv1.UpdateMachineRequest{},
				&runtimehooksv1.CanUpdateMachineResponse{})
		},
		"no hook": func() error {
			return c.CallExtension(t.Context(), TestWrongCalls, machine, "u.ext", &runtimehooksv1.UpdateMachineRequest{},
				&runtimehooksv1.UpdateMachineResponse{})
		},
	} {
		// The policy Ignore is about servers that do not answer, and hides no mistake.
		if err := call(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSettingsAndKind(t *testing.T) {
	var got map[string]any
	config := updates(serve(t, "ext", answers{update + "u": func(body map[string]any) (int, any) {
		got = body
		return http.StatusOK, runtimehooksv1.CommonResponse{Status: runtimehooksv1.ResponseStatusSuccess}
	}}), "Fail", "u")
	config.Spec.Settings = map[string]string{"a": "1", "b": "2"}
	request := &runtimehooksv1.UpdateMachineRequest{CommonRequest: runtimehooksv1.CommonRequest{Settings: map[string]string{"b": "3"}}}
	if err := ready(t, config).CallExtension(t.Context(), runtimehooksv1.UpdateMachine, machine, "u.ext", request,
		&runtimehooksv1.UpdateMachineResponse{}); err != nil {
		t.Fatal(err)
	}
	if want := map[string]any{"a": "1", "b": "3"}; !reflect.DeepEqual(got["settings"], want) || len(request.Settings) != 1 {
		t.Errorf("settings %v, want %v; the caller's request has %v", got["settings"], want, request.Settings)
	}
	if got["kind"] != "UpdateMachineRequest" || got["apiVersion"] != "hooks.runtime.cluster.x-k8s.io/v1alpha1" {
		t.Errorf("it is %v %v", got["apiVersion"], got["kind"])
	}
}

func TestCallAllExtensions(t *testing.T) {
	retry := func(seconds int32, message string) func(map[string]any) (int, any) {
		return says(runtimehooksv1.CommonRetryResponse{RetryAfterSeconds: seconds,
			CommonResponse: runtimehooksv1.CommonResponse{Status: "Success", Message: message}})
	}
	one := updates(serve(t, "one", answers{update + "a": retry(0, "done"), update + "b": retry(7, "")}), "Fail", "a", "b")
	two := updates(serve(t, "two", answers{update + "c": retry(5, "slow")}), "Fail", "c")
	for _, c := range []struct {
		configs []*runtimev1.ExtensionConfig
		seconds int32
		message string
	}{{seconds: 0}, {[]*runtimev1.ExtensionConfig{two}, 5, "slow"}, {[]*runtimev1.ExtensionConfig{two, one}, 5, "done, slow"}} {
		response := &runtimehooksv1.UpdateMachineResponse{}
		err := ready(t, c.configs...).CallAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, machine,
			&runtimehooksv1.UpdateMachineRequest{}, response)
		if err != nil || response.RetryAfterSeconds != c.seconds || response.Message != c.message ||
			response.Status != runtimehooksv1.ResponseStatusSuccess {
			t.Errorf("%d extensions: %v, %+v", len(c.configs), err, response)
		}
	}
	failing := updates(serve(t, "failing", answers{update + "a": says(runtimehooksv1.CommonResponse{Status: "Failure", Message: "no"})}),
		"Fail", "a")
	never := updates(serve(t, "never",
		answers{update + "b": func(map[string]any) (int, any) { t.Error("called after a failure"); return 200, "" }}), "Fail", "b")
	err := ready(t, failing, never).CallAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, machine,
		&runtimehooksv1.UpdateMachineRequest{}, &runtimehooksv1.UpdateMachineResponse{})
	if err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("error %v", err)
	}
}

func TestCaching(t *testing.T) {
	calls := 0
	count := func(map[string]any) (int, any) {
		calls++
		return http.StatusOK, runtimehooksv1.CommonResponse{Status: runtimehooksv1.ResponseStatusSuccess, Message: fmt.Sprint(calls)}
	}
	config := updates(serve(t, "ext", answers{update + "u": count, update + "v": count}), "Fail", "u", "v")
	config.ResourceVersion = "7"
	c := ready(t, config)
	known := upstream.WithCaching{Cache: cache.New[upstream.CallExtensionCacheEntry](t.Context(), time.Minute),
		CacheKeyFunc: func(name, version string, r runtimehooksv1.RequestObject) string {
			return name + "/" + version + "/" + r.GetSettings()["key"]
		}}
	var messages []string
	for _, call := range []struct{ handler, key string }{{"u.ext", "a"}, {"u.ext", "a"}, {"u.ext", "b"}, {"v.ext", "a"}, {"v.ext", "a"}} {
		response := &runtimehooksv1.UpdateMachineResponse{}
		request := &runtimehooksv1.UpdateMachineRequest{CommonRequest: runtimehooksv1.CommonRequest{Settings: map[string]string{"key": call.key}}}
		if err := c.CallExtension(t.Context(), runtimehooksv1.UpdateMachine, machine, call.handler, request, response, known); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, response.Message)
	}
	if got := strings.Join(messages, " "); got != "1 1 2 3 3" {
		t.Errorf("answers %s, want 1 1 2 3 3: one of each handler for each request", got)
	}
	if _, there := known.Cache.Has("u.ext/7/a"); !there {
		t.Error("the key has neither the handler nor its extension's version")
	}
}
