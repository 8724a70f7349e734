package drift

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// box is an infrastructure machine from JSON, where nothing else is said of kind
// Box in group infra.example.
func box(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if strings.Contains(text, "apiVersion") {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	} else {
		text = `"apiVersion":"infra.example/v1","kind":"Box","spec":` + text
	}
	if err := object.UnmarshalJSON([]byte("{" + text + "}")); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return object
}

func TestInlineHash(t *testing.T) {
	hash := func(text string) string { return Wanted{Inline: box(t, text)}.InlineHash() }
	const given = `{"cpu":2,"disks":[{"size":"1Gi","fast":true}]}`
	// It is in annotations of machines that run: another one replaces all of them.
	const known = "59877646abd200b5"
	for _, r := range []struct {
		name, text string
		same       bool
	}{
		{"the same", given, true},
		{"keys in another order", `{"disks":[{"fast":true,"size":"1Gi"}],"cpu":2}`, true},
		{"other formatting", "{ \"cpu\": 2.0,\n\t\"disks\": [ {\"size\":\"1\\u0047i\", \"fast\":true} ] }", true},
		{"another version of the API", `{"apiVersion":"infra.example/v2","kind":"Box","spec":` + given + `}`, true},
		{"metadata and status",
			`{"apiVersion":"infra.example/v1","kind":"Box","metadata":{"name":"a","labels":{"a":"b"}},"status":{"ready":true},"spec":` + given + `}`,
			true},
		{"another kind", `{"apiVersion":"infra.example/v1","kind":"Crate","spec":` + given + `}`, false},
		{"another group", `{"apiVersion":"infra/v1","kind":"Box","spec":` + given + `}`, false},
		{"a field beside spec", `{"apiVersion":"infra.example/v1","kind":"Box","size":1,"spec":` + given + `}`, false},
		{"a value", `{"cpu":3,"disks":[{"size":"1Gi","fast":true}]}`, false},
		{"a value deep inside", `{"cpu":2,"disks":[{"size":"1Gi","fast":false}]}`, false},
		{"a number as text", `{"cpu":"2","disks":[{"size":"1Gi","fast":true}]}`, false},
		{"a field more", `{"cpu":2,"memory":"1Gi","disks":[{"size":"1Gi","fast":true}]}`, false},
		{"a field less", `{"disks":[{"size":"1Gi","fast":true}]}`, false},
		{"an element more", `{"cpu":2,"disks":[{"size":"1Gi","fast":true},{}]}`, false},
	} {
		if got := hash(r.text); (got == known) != r.same || len(got) != 16 {
			t.Errorf("%s: %s", r.name, got)
		}
	}
	if hash(`{"n":9007199254740993}`) == hash(`{"n":9007199254740992}`) {
		t.Error("two large numbers are the same")
	}
	if got := (Wanted{}).InlineHash(); got != "" {
		t.Errorf("of nothing it is %q", got)
	}
}

// TestCompareInline: infrastructure against the value that is given today. One that
// was made from a value says from which; one made by hand is compared by its fields.
func TestCompareInline(t *testing.T) {
	const byHand = ""
	for _, r := range []struct {
		name             string
		from, has, given string // from is what it was made from.
		want             string // Empty: no difference.
	}{
		{"made from it", `{"a":1}`, `{"a":1}`, `{"a":1}`, ""},
		{"made from it, and changed by its provider", `{"a":1}`, `{"a":2,"b":3}`, `{"a":1}`, ""},
		{"made from another value", `{"a":1}`, `{"a":1}`, `{"a":2}`, "P.spec.a: 1, wanted 2"},
		{"made from another, and several fields", `{"a":1,"b":{"c":"x","d":"y"}}`, `{"a":1,"b":{"c":"x","d":"y"}}`,
			`{"a":2,"b":{"c":"z","d":"y"}}`,
			"P.spec.a: 1, wanted 2; P.spec.b.c: x, wanted z"},
		{"made from more", `{"a":1,"b":2}`, `{"a":1,"b":2}`, `{"a":1}`, "P changed"},
		{"made from another, and its provider wrote today's", `{"a":1}`, `{"a":2}`, `{"a":2}`, "P changed"},
		{"made from another kind", `{"a":1}`, `{"apiVersion":"infra.example/v1","kind":"Crate","spec":{"a":1}}`, `{"a":1,"b":2}`,
			"P.kind: Crate.infra.example, wanted Box.infra.example"},

		{"by hand: the same", byHand, `{"a":1}`, `{"a":1}`, ""},
		{"by hand: with more fields", byHand, `{"a":1,"b":{"c":"x","d":"y"},"e":[1]}`, `{"b":{"d":"y"}}`, ""},
		{"by hand: another value", byHand, `{"a":1}`, `{"a":2}`, "P.spec.a: 1, wanted 2"},
		{"by hand: one field less", byHand, `{"a":1}`, `{"a":1,"b":{"c":"x"}}`, "P.spec.b.c: unset, wanted x"},
		{"by hand: another type", byHand, `{"a":"1"}`, `{"a":{"b":1}}`, `P.spec.a: 1, wanted {"b":1}`},
		{"by hand: text is not a number", byHand, `{"a":"1"}`, `{"a":1}`, "P.spec.a changed"},
		{"by hand: a number is a number", byHand, `{"a":1.0}`, `{"a":1}`, ""},
		{"by hand: large numbers", byHand, `{"a":9007199254740993}`, `{"a":9007199254740992}`,
			"P.spec.a: 9007199254740993, wanted 9007199254740992"},
		{"by hand: what is empty is not given", byHand, `{"a":"x","b":{"c":1},"d":[1],"e":1,"f":1}`, `{"a":"","b":{},"d":[],"e":null,"f":{}}`,
			""},
		{"by hand: off, and not written", byHand, `{}`, `{"a":false,"b":0}`, ""},
		{"by hand: off, and on", byHand, `{"a":true,"b":1}`, `{"a":false,"b":0}`, "P.spec.a: true, wanted false; P.spec.b: 1, wanted 0"},
		{"by hand: on, and not written", byHand, `{}`, `{"a":true}`, "P.spec.a: unset, wanted true"},
		{"by hand: a list whose elements have more fields", byHand, `{"a":[{"b":1,"c":2},{"b":3}]}`, `{"a":[{"b":1},{"b":3}]}`, ""},
		{"by hand: an element changed", byHand, `{"a":[{"b":1},{"b":2}]}`, `{"a":[{"b":1},{"b":3}]}`, "P.spec.a[1].b: 2, wanted 3"},
		{"by hand: an element less", byHand, `{"a":["x","y"]}`, `{"a":["x"]}`, `P.spec.a: ["x","y"], wanted ["x"]`},
		{"by hand: no list", byHand, `{}`, `{"a":["x"]}`, `P.spec.a: unset, wanted ["x"]`},
		{"by hand: another order", byHand, `{"a":["x","y"]}`, `{"a":["y","x"]}`, "P.spec.a[0]: x, wanted y; P.spec.a[1]: y, wanted x"},
		{"by hand: rules of kubeadmConfigSpec do not count", byHand, `{"node":{"discovery":"x"},"certSANs":["x","y"]}`,
			`{"node":{"discovery":"y"},"certSANs":["y","x"]}`,
			"P.spec.certSANs[0]: x, wanted y; P.spec.certSANs[1]: y, wanted x; P.spec.node.discovery: x, wanted y"},
		{"by hand: another kind", byHand, `{"apiVersion":"infra.example/v1","kind":"Crate","spec":{"a":1}}`, `{"a":2}`,
			"P.kind: Crate.infra.example, wanted Box.infra.example"},
		{"by hand: another group", byHand, `{"apiVersion":"x/v1","kind":"Box"}`, `{"a":2}`, "P.kind: Box.x, wanted Box.infra.example"},
		{"by hand: another version of the API", byHand, `{"apiVersion":"infra.example/v2","kind":"Box","spec":{"a":1}}`, `{"a":1}`, ""},
		{"by hand: metadata and status", byHand, `{"apiVersion":"infra.example/v1","kind":"Box","metadata":{"name":"x"}}`,
			`{"apiVersion":"infra.example/v1","kind":"Box","metadata":{"name":"y","labels":{"a":"b"}},"status":{"a":1}}`, ""},
		{"by hand: a field beside spec", byHand, `{"apiVersion":"infra.example/v1","kind":"Box","a":1}`,
			`{"apiVersion":"infra.example/v1","kind":"Box","a":2}`, "P.a: 1, wanted 2"},
	} {
		p := newPlain()
		p.m.Infrastructure, p.w.Inline = box(t, r.has), box(t, r.given)
		if r.from != byHand {
			p.m.Infrastructure.SetAnnotations(map[string]string{ProviderSpecAnnotation: Wanted{Inline: box(t, r.from)}.InlineHash()})
		}
		before, _ := json.Marshal([]any{p.w, p.m})
		if got := said(p.w.Compare(p.m)); got != r.want {
			t.Errorf("%s:\n  said %q\n  want %q", r.name, got, r.want)
		}
		if after, _ := json.Marshal([]any{p.w, p.m}); string(after) != string(before) {
			t.Errorf("%s: comparing changed\n%s\ninto\n%s", r.name, before, after)
		}
	}
	p := newPlain()
	p.w.Inline, p.m.Infrastructure = box(t, `{"a":1}`), nil
	if got := said(p.w.Compare(p.m)); got != "" {
		t.Errorf("of what is not known it says %s", got)
	}
	p.m.Infrastructure, p.w.Fields.Inline = box(t, `{"a":2}`), "here"
	if got := said(p.w.Compare(p.m)); got != "here.spec.a: 2, wanted 1" {
		t.Errorf("with a path of the kind's own it says %s", got)
	}
}

// TestInlineSecrets: of what may be secret it is said that it changed, and nothing
// else. Every row holds hunter2 on one side and swordfish on the other.
func TestInlineSecrets(t *testing.T) {
	for _, r := range []struct{ name, field, has, given, want string }{
		{"a password", "adminPassword", `"hunter2"`, `"swordfish"`, " changed"},
		{"a number", "pinKey", `1`, `2`, " changed"},
		{"a number with a fraction", "pinKey", `1.5`, `2.5`, " changed"},
		{"a switch", "secretMounted", `true`, `false`, ": true, wanted false"},
		{"a new password", "passphrase", `null`, `"swordfish"`, ": unset, wanted (not shown)"},
		{"cloud-init", "userData", `"hunter2"`, `"swordfish"`, " changed"},
		{"below such a name", "credentials", `{"a":"hunter2"}`, `{"a":"swordfish"}`, ".a changed"},
		{"in a list of such a name", "sshKeys", `["hunter2"]`, `["swordfish"]`, "[0] changed"},
		{"of a name and a value", "options", `[{"name":"token","value":"hunter2"}]`, `[{"name":"token","value":"swordfish"}]`,
			"[0].value changed"},
		{"a field hidden in kubeadmConfigSpec too", "bootCommands", `["hunter2"]`, `["swordfish"]`, "[0] changed"},
		{"a list of another length", "options", `[{"value":"hunter2","b":1}]`, `[{"value":"swordfish"},{"value":"swordfish"}]`,
			`: [{"b":1,"value":"(not shown)"}], wanted [{"value":"(not shown)"},{"value":"(not shown)"}]`},
		{"a URL with a password", "proxy", `"http://me:hunter2@proxy"`, `"http://me:swordfish@proxy"`, " changed"},
		{"such URLs in a list", "proxies", `[]`, `["http://me:swordfish@proxy"]`, `: [], wanted ["(not shown)"]`},
		{"text of several lines", "note", `"#!/bin/sh\nhunter2"`, `"#!/bin/sh\nswordfish"`, " changed"},
		{"a URL without a password", "image", `"http://a/b"`, `"http://a/c\n"`, ": http://a/b, wanted http://a/c\n"},
	} {
		p := newPlain()
		p.m.Infrastructure, p.w.Inline = box(t, `{"`+r.field+`":`+r.has+`}`), box(t, `{"`+r.field+`":`+r.given+`}`)
		got, want := said(p.w.Compare(p.m)), "P.spec."+r.field+r.want
		if got != want {
			t.Errorf("%s:\n  said %q\n  want %q", r.name, got, want)
		}
		for _, secret := range []string{"hunter2", "swordfish"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %q is shown", r.name, secret)
			}
		}
	}
}

// TestForeignNames: which names hide a field of an object whose fields are not known,
// and that they do not hide those of a kubeadmConfigSpec.
func TestForeignNames(t *testing.T) {
	for name, want := range map[string]bool{
		"clientSecret": true, "apiKey": true, "basicAuth": true, "passphrase": true, "value": true, "environment": true, "contentBase64": true,
		"startupScript": true, "runCommand": true, "UserData": true, "customData": true, "vendorData": true, "cloudInit": true,
		"ignitionConfig": true,
		"password":       true, "token": true, "cpu": false, "datacenter": false, "image": false, "zone": false,
	} {
		if got := (path{foreign: true}).member(name).hidden; got != want {
			t.Errorf("a field called %s is hidden: %t", name, got)
		}
	}
	check(t, false, []row{
		{"a field known to hold none", func(s *scene) { s.want.NTP.Servers[1] = "a://b@c" }, "S.ntp.servers[1]: ntp2, wanted a://b@c"},
		{"a name known to hold none", func(s *scene) { s.want.Users[1].SSHAuthorizedKeys = []string{"a"} },
			"S.users[guest].sshAuthorizedKeys[0]: unset, wanted a"},
	})
}
