package outgoing

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/config/crd"
)

// hostile is what a container may print last, and an API server, a member of etcd or a provider answer.
const hostile = "cannot join: --token abcdef.0123456789abcdef \x1b]0;pwned\x07\x1b[31mred\u202e"

// check reports what of hostile is left.
func check(t *testing.T, where, text string) {
	t.Helper()
	if strings.Contains(text, "0123456789abcdef") || strings.ContainsAny(text, "\x1b\x07\u202e") ||
		!strings.Contains(text, "cannot join: --token <secret>") {
		t.Errorf("%s has %q", where, text)
	}
}

func newClient(t *testing.T, o *v1alpha1.ControlPlane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return Client(fake.NewClientBuilder().WithScheme(scheme).WithObjects(o).WithStatusSubresource(o).Build())
}

// TestStatus: whichever way a status is written, its messages are clean.
func TestStatus(t *testing.T) {
	was := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	for name, write := range map[string]func(client.Client, *v1alpha1.ControlPlane) error{
		"update": func(c client.Client, o *v1alpha1.ControlPlane) error { return c.Status().Update(t.Context(), o) },
		"subresource": func(c client.Client, o *v1alpha1.ControlPlane) error {
			return c.SubResource("status").Update(t.Context(), o)
		},
		"patch": func(c client.Client, o *v1alpha1.ControlPlane) error {
			return c.Status().Patch(t.Context(), o, client.MergeFrom(was))
		},
		"unstructured": func(c client.Client, o *v1alpha1.ControlPlane) error {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return err
			}
			u := &unstructured.Unstructured{Object: content}
			u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ControlPlane"))
			return c.Status().Update(t.Context(), u)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, was.DeepCopy())
			o := &v1alpha1.ControlPlane{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(was), o); err != nil {
				t.Fatal(err)
			}
			shared := ptr.To(hostile)
			o.Status.FailureMessage = shared
			o.Status.Plan.Message = hostile
			o.Status.Conditions = []metav1.Condition{
				{Type: "Available", Status: metav1.ConditionFalse, Reason: "X", Message: hostile + strings.Repeat("x", 2*longestMessage)},
			}
			if err := write(c, o); err != nil {
				t.Fatal(err)
			}
			got := &v1alpha1.ControlPlane{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(was), got); err != nil {
				t.Fatal(err)
			}
			check(t, "failureMessage", ptr.Deref(got.Status.FailureMessage, ""))
			check(t, "plan", got.Status.Plan.Message)
			check(t, "condition", got.Status.Conditions[0].Message)
			if n := len(got.Status.Conditions[0].Message); n > longestMessage {
				t.Errorf("the condition's message has %d bytes", n)
			}
			if *shared != hostile {
				t.Error("a text that others point to was changed")
			}
		})
	}
}

func TestEvents(t *testing.T) {
	inner := events.NewFakeRecorder(1)
	recorder{
		inner,
	}.Eventf(
		&v1alpha1.ControlPlane{},
		nil,
		"Warning",
		"StepFailed",
		"Create",
		"%s",
		hostile+strings.Repeat("x", 2*longestNote),
	)
	note := <-inner.Events
	check(t, "the event", note)
	if len(note) > longestNote+100 {
		t.Errorf("the event has %d bytes", len(note))
	}
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	l := Logger(funcr.New(func(prefix, args string) { out.WriteString(prefix + " " + args + "\n") }, funcr.Options{LogCaller: funcr.All}))
	l.Info(hostile)
	l.Error(errors.New(hostile), "x")
	l.Info("x", "value", hostile)
	l.Info("x", "err", errors.New(hostile))
	l.WithValues("value", hostile).WithName("name").Info("x")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		check(t, "the log", line)
		if !strings.Contains(line, "outgoing_test.go") {
			t.Errorf("the caller is wrong: %s", line)
		}
	}
}

// others are the fields of statuses that hold no text for people: names, numbers, times, addresses, and reasons, whose form API servers
// check or that are Quorate's own.
var others = sets.New(
	"address",
	"component",
	"dataSecretName",
	"date",
	"digest",
	"endpoints",
	"expirationTime",
	"failedStep",
	"failureDomain",
	"failureReason",
	"host",
	"id",
	"initMachineAddress",
	"kind",
	"lastTransitionTime",
	"machine",
	"members",
	"name",
	"namespace",
	"next",
	"podCIDR",
	"reason",
	"renewedBy",
	"rule",
	"secret",
	"selector",
	"severity",
	"status",
	"step",
	"steps",
	"time",
	"timestamp",
	"type",
	"version",
	"failureDomains.attributes",
)

// TestTexts: each string in the status of each kind is cleaned, or known to hold no text for people. A new field needs its place.
func TestTexts(t *testing.T) {
	found := 0
	var walk func(kind, name string, schema map[string]any)
	walk = func(kind, name string, schema map[string]any) {
		if schema["type"] == "string" {
			found++
			if texts[name] == others.Has(name) {
				t.Errorf(
					"%s: status has the field %q: add it to texts of package outgoing if it may hold text for people, otherwise to this test's list",
					kind,
					name,
				)
			}
		}
		if below, is := schema["properties"].(map[string]any); is {
			for name, one := range below {
				if one, is := one.(map[string]any); is {
					walk(kind, name, one)
				}
			}
		}
		for _, key := range []string{"items", "additionalProperties"} {
			if one, is := schema[key].(map[string]any); is {
				if key == "additionalProperties" && name == "attributes" {
					name = "failureDomains.attributes"
				}
				walk(kind, name, one)
			}
		}
	}
	for _, status := range statuses(t) {
		walk(status.kind, "", status.schema)
	}
	if found < 50 {
		t.Errorf("only %d fields were found", found)
	}
}

type statusOf struct {
	kind   string
	schema map[string]any
}

// statuses are the schemas of all kinds' statuses.
func statuses(t *testing.T) []statusOf {
	t.Helper()
	var all []statusOf
	entries, err := crd.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		data, err := crd.Files.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		var content map[string]any
		if err := yaml.Unmarshal(data, &content); err != nil {
			t.Fatal(err)
		}
		versions, _, err := unstructured.NestedSlice(content, "spec", "versions")
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range versions {
			v, _ := version.(map[string]any)
			schema, has, err := unstructured.NestedMap(v, "schema", "openAPIV3Schema", "properties", "status")
			if err != nil {
				t.Fatal(err)
			}
			if has {
				all = append(all, statusOf{entry.Name(), schema})
			}
		}
	}
	return all
}
