package plaintext

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"
)

const key = `-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY/PuoAoGCCqGSM49
AwEHoUQDQgAEPR3tU2Fta9ktY+6P9G0cWO+0kETA6SFs38GecTyudlHz6xvCdz8q
EKTcWGekdmdDPsHloRNtsiCa697B2O9IFA==
-----END EC PRIVATE KEY-----`

func TestRedact(t *testing.T) {
	hex64 := strings.Repeat("0123456789abcdef", 4)
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a secret of some length", 5)))
	for name, c := range map[string]struct{ text, want string }{
		"bearer": {"curl -H 'Authorization: Bearer s3cr3t' https://x/install",
			"curl -H 'Authorization: Bearer <secret>' https://x/install"},
		"bootstrap token": {"kubeadm join 172.30.0.10:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:" + hex64,
			"kubeadm join 172.30.0.10:6443 --token <secret> --discovery-token-ca-cert-hash sha256:" + hex64},
		"bare token":      {"using abcdef.0123456789abcdef now", "using <token> now"},
		"certificate key": {"join --certificate-key " + hex64 + " --v=5", "join --certificate-key <secret> --v=5"},
		"short key":       {"--certificate-key=deadbeef", "--certificate-key=<secret>"},
		"printed key": {"[upload-certs] Using certificate key:\n" + hex64 + "\nnext",
			"[upload-certs] Using certificate key:\n<secret>\nnext"},
		"in YAML":        {"certificateKey: " + hex64 + "\nother: 1", "certificateKey: <secret>\nother: 1"},
		"PEM":            {"before\n" + key + "\nafter", "before\n<PEM block>\nafter"},
		"PEM, cut end":   {"before\n" + key[:100], "before\n<PEM block>"},
		"PEM, cut start": {key[60:] + "\nafter", "<PEM block>\nafter"},
		"PEM in JSON":    {`{"key":"` + strings.ReplaceAll(key, "\n", `\n`) + `"}`, `{"key":"<PEM block>"}`},
		"kubeconfig": {"users:\n- name: a\n  user:\n    client-key-data: " + long + "\n    token: abc\n    password: \"a b\"\n",
			"users:\n- name: a\n  user:\n    client-key-data: <secret>\n    token: <secret>\n    password: <secret>\n"},
		"kubeconfig JSON": {`{"user":{"token":"abc","client-key-data":"` + long + `"}}`,
			`{"user":{"token":<secret>,"client-key-data":<secret>}}`},
		"JWT":         {"got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrIn0.c2lnbmF0dXJl.", "got <token>."},
		"URL":         {"fetching https://me:pass@host/x", "fetching https://<secret>@host/x"},
		"base64":      {"a\n" + long + "\nb", "a\n<base64>\nb"},
		"quoted flag": {`x --token "a b" y`, `x --token <secret> y`},
		"container":   {"StartContainer for " + hex64 + " returned", "StartContainer for " + hex64 + " returned"},
		"nothing": {"kubeadm init --config /run/kubeadm/kubeadm.yaml && echo ok: the token is valid",
			"kubeadm init --config /run/kubeadm/kubeadm.yaml && echo ok: the token is valid"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Redact(c.text)
			if got != c.want {
				t.Errorf("%q\nwant %q", got, c.want)
			}
			if again := Redact(got); again != got {
				t.Errorf("redacted twice it is %q", again)
			}
		})
	}
}

func TestLines(t *testing.T) {
	var l Lines
	var out strings.Builder
	text := "one\n" + key + "\ntwo\n-----BEGIN X-----\nno part of it: surely\nthree --token abc\n" + key[:60] + "\nunfinished!\nfour\n"
	for line := range strings.Lines(text) {
		out.Write(l.Redact([]byte(line)))
	}
	want := "one\n<PEM block>\ntwo\n<PEM block>\nno part of it: surely\nthree --token <secret>\n<PEM block>\nunfinished!\nfour\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestTerminal(t *testing.T) {
	for _, c := range []struct{ text, stripped, visible string }{
		{"plain\n\tö", "plain\n\tö", "plain\n\tö"},
		{"a\x1b[31mred\x1b[0m", "ared", "a^[[31mred^[[0m"},
		{"\x1b]0;title\x07b", "b", "^[]0;title^Gb"},
		{"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", "^[]8;;http://x^[\\link^[]8;;^[\\"},
		{"c\rd\x00", "cd", "c^Md^@"},
		{"\u009b31mx", "x", "<U+009B>31mx"},
		{"\x9b31mx", "31mx", "\uFFFD31mx"},
		{"\u202ereversed", "reversed", "<U+202E>reversed"},
		{"\x1bc\x7f", "", "^[c<U+007F>"},
	} {
		if got := Strip(c.text); got != c.stripped {
			t.Errorf("%q stripped: %q, want %q", c.text, got, c.stripped)
		}
		if got := Visible(c.text); got != c.visible {
			t.Errorf("%q made visible: %q, want %q", c.text, got, c.visible)
		}
	}
}

// FuzzShown: nothing that a terminal acts on is left, and nothing is found that was looked for already.
func FuzzShown(f *testing.F) {
	f.Add("kubeadm join --token abcdef.0123456789abcdef\n" + key)
	f.Add("\x1b]0;title\x07\x1b[2J\u009b31m\u202e")
	f.Add("users:\n- user: {token: abc, client-key-data: 'eHg='}\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range []string{Shown(text), Visible(text)} {
			if !utf8.ValidString(got) || strings.IndexFunc(got, acts) >= 0 {
				t.Errorf("%q becomes %q", text, got)
			}
		}
		if strings.Contains(Shown(text), "-----BEGIN PRIVATE KEY-----") {
			t.Errorf("%q keeps a key", text)
		}
		var l Lines
		for line := range strings.Lines(text) {
			l.Redact([]byte(line))
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r > 0x7f }) {
			return // letters beyond ASCII that count as one of it in patterns
		}
		for _, r := range rules {
			if !r.may(text, strings.ToLower(text)) && r.pattern.MatchString(text) {
				t.Errorf("%q is passed over by the rule %s", text, r.pattern)
			}
		}
	})
}
