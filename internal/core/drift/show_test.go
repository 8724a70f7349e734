package drift

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// TestSecrets: that they changed is said, and nothing of them. Every row holds
// hunter2 on one side and swordfish on the other.
func TestSecrets(t *testing.T) {
	rows := []row{
		{"a file's content", func(s *scene) { s.want.Files[0].Content = "swordfish" }, "S.files[/etc/a].content changed"},
		{"a file's content, emptied", func(s *scene) { s.want.Files[0].Content = "" }, "S.files[/etc/a].content: (not shown), wanted unset"},
		{"a file more", func(s *scene) {
			s.want.Files = append(s.want.Files, bootstrapv1.File{Path: "/etc/c", Content: "swordfish", Append: ptr(false)})
		}, `S.files[/etc/c]: unset, wanted {"append":false,"content":"(not shown)","path":"/etc/c"}`},
		{"a file twice", func(s *scene) {
			s.want.Files = append(s.want.Files, bootstrapv1.File{Path: "/etc/b", Content: "swordfish"})
		}, `S.files[/etc/b]: {"content":"(not shown)","path":"/etc/b"}, wanted [{"content":"(not shown)","path":"/etc/b"},{"content":"(not ` +
			`shown)","path":"/etc/b"}]`},
		{"where a file's content comes from", func(s *scene) {
			s.want.Files[1].ContentFrom.Secret = bootstrapv1.SecretFileSource{Name: "the-secret", Key: "k"}
		}, "S.files[/etc/b].contentFrom.secret.key: unset, wanted k; S.files[/etc/b].contentFrom.secret.name: unset, wanted the-secret"},
		{"a user's password", func(s *scene) { s.want.Users[0].Passwd = "swordfish" }, "S.users[admin].passwd changed"},
		{"where a user's password comes from", func(s *scene) { s.want.Users[0].PasswdFrom.Secret.Name = "swordfish" },
			"S.users[admin].passwdFrom.secret.name: unset, wanted (not shown)"},
		{"a user less", func(s *scene) { s.want.Users = s.want.Users[1:] },
			`S.users[admin]: {"name":"admin","passwd":"(not shown)"}, wanted unset`},
		{"an environment variable", func(s *scene) { (*s.cluster.APIServer.ExtraEnvs)[0].Value = "swordfish" },
			"S.clusterConfiguration.apiServer.extraEnvs[HTTPS_PROXY].value changed"},
		{"an environment variable more", func(s *scene) {
			s.cluster.Etcd.Local.ExtraEnvs = &[]bootstrapv1.EnvVar{{EnvVar: corev1.EnvVar{Name: "A", Value: "swordfish"}}}
		}, `S.clusterConfiguration.etcd.local.extraEnvs[A]: unset, wanted {"name":"A","value":"(not shown)"}`},
		{"a command", func(s *scene) { s.want.PreKubeadmCommands[1] = "swordfish" }, "S.preKubeadmCommands[1] changed"},
		{"commands, several more", func(s *scene) {
			s.want.PostKubeadmCommands = append(s.want.PostKubeadmCommands, "swordfish", "hunter2")
		}, "S.postKubeadmCommands[1]: unset, wanted (not shown)"},
		{"commands at boot", func(s *scene) { s.want.BootCommands = []string{"swordfish"} }, "S.bootCommands[0]: unset, wanted (not shown)"},
		{"Ignition's own", func(s *scene) {
			s.was.Ignition.ContainerLinuxConfig.AdditionalConfig = "hunter2"
			s.want.Ignition.ContainerLinuxConfig.AdditionalConfig = "swordfish"
		}, "S.ignition.containerLinuxConfig.additionalConfig changed"},
	}
	check(t, false, rows)
	for _, r := range rows {
		s := newScene(false)
		r.change(&s)
		for _, secret := range []string{"hunter2", "swordfish"} {
			if strings.Contains(s.of().String(), secret) {
				t.Errorf("%s: %q is shown", r.name, secret)
			}
		}
	}
	for name, want := range map[string]bool{"userPassword": true, "token": true, "bootstrapTokens": true, "Credentials": true,
		"privateKey": true, "secret": false, "sshAuthorizedKeys": false} {
		if got := secret(name); got != want {
			t.Errorf("a field called %s is hidden: %t", name, got)
		}
	}
}

// TestShorten: long values are cut, and what differs is seen.
func TestShorten(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for _, test := range []struct{ name, was, want, a, b string }{
		{"short ones stay", "a", "b", "a", "b"},
		{"a hundred characters stay", long, "b", long, "b"},
		{"one more is cut", long + "ä", "b", long + "…", "b"},
		{"both are cut", "x" + long, "y" + long, "x" + long[:198] + "…", "y" + long[:198] + "…"},
		{"one is not there", "", long + "ä", "", long + "…"},
		{"half alike stays", long[:100] + "x" + long, long[:100] + "y", long[:100] + "x" + long[:98] + "…", long[:100] + "y"},
		{"more than half alike is left out", long[:102] + "x" + long, long[:102] + "y", "…" + long[:40] + "x" + long[:158] + "…",
			"…" + long[:40] + "y"},
		{"one goes on where the other ends", long, long + "y", "…" + long[:40], "…" + long[:40] + "y"},
	} {
		a, b := shorten(test.was, test.want)
		if a != test.a || b != test.b {
			t.Errorf("%s:\n  %q\n  %q\nwant\n  %q\n  %q", test.name, a, b, test.a, test.b)
		}
	}
	check(t, false, []row{
		{"JSON stays readable", func(s *scene) { s.want.Mounts = append(s.want.Mounts, bootstrapv1.MountPoints{"<a>", "&"}) },
			`S.mounts[2]: unset, wanted ["<a>","&"]`},
		{"numbers are whole", func(s *scene) { s.cluster.CertificateValidityPeriodDays = 1000000 },
			"S.clusterConfiguration.certificateValidityPeriodDays: 365, wanted 1000000"},
	})
}
