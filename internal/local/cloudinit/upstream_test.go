package cloudinit

import (
	"strings"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
)

func ptrTo[T any](v T) *T { return &v }

// base is everything that a KubeadmConfig can ask of cloud-init and a machine can do.
func base() upstream.BaseUserData {
	return upstream.BaseUserData{
		BootCommands:        []string{"echo 'boot' \"$(date)\"", "mkdir -p /run/x"},
		PreKubeadmCommands:  []string{`printf "a\tb: %s\n" 'x' >> /run/kubeadm/kubeadm.yaml`, "- dashed: yes"},
		PostKubeadmCommands: []string{"echo {one} # no comment"},
		AdditionalFiles: []bootstrapv1.File{
			{Path: "/etc/plain", Content: "one\n\n  two: {three}\n", Owner: "root:root", Permissions: "0600"},
			{Path: "/etc/b64", Content: "aGk=", Encoding: bootstrapv1.Base64},
			{Path: "/etc/gz", Content: gzipped("zipped"), Encoding: bootstrapv1.GzipBase64},
			{Path: "/etc/more", Content: "x", Append: ptrTo(true)},
		},
		Users: []bootstrapv1.User{
			{
				Name: "ops", Gecos: "O P", Groups: "adm, wheel", HomeDir: "/srv/ops", Shell: "/bin/bash", Passwd: "$6$x", PrimaryGroup: "staff",
				Inactive: ptrTo(true), LockPassword: ptrTo(true), Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA a@b"},
			},
			{Name: "plain"},
		},
		NTP:              &bootstrapv1.NTP{Enabled: ptrTo(true), Servers: []string{"one.example", "two.example"}},
		KubeadmVerbosity: "-v 5",
	}
}

func authorities() secret.Certificates {
	all := secret.NewCertificatesForInitialControlPlane(&bootstrapv1.ClusterConfiguration{})
	for _, c := range all {
		c.KeyPair = &certs.KeyPair{Cert: []byte("a certificate\n"), Key: []byte("a key\n")}
	}
	return all
}

// samples are what the kubeadm bootstrap provider writes of everything.
func samples(t *testing.T) map[string][]byte {
	t.Helper()
	write := func(data []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	const join = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration:\n  name: '{{ " +
		"ds.meta_data.local_hostname }}'\n"
	return map[string][]byte{
		"init": write(upstream.NewInitControlPlane(&upstream.ControlPlaneInput{
			BaseUserData: base(), Certificates: authorities(),
			ClusterConfiguration: "kind: ClusterConfiguration\n", InitConfiguration: "kind: InitConfiguration\nname: '{{ " +
				"ds.meta_data.local_hostname }}'\n",
		})),
		"join": write(upstream.NewJoinControlPlane(&upstream.ControlPlaneJoinInput{BaseUserData: base(), Certificates: authorities(),
			JoinConfiguration: join})),
		"node": write(upstream.NewNode(&upstream.NodeInput{BaseUserData: base(), JoinConfiguration: join})),
	}
}

func TestUpstreamSamples(t *testing.T) {
	for name, data := range samples(t) {
		t.Run(name, func(t *testing.T) {
			c, err := Parse(data, meta)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			files := map[string]File{}
			for _, f := range c.Files {
				files[f.Path] = f
			}
			if got := string(files["/etc/plain"].Content); got != "one\n\n  two: {three}\n" || files["/etc/plain"].Mode != 0o600 {
				t.Errorf("a plain file: %q", got)
			}
			if b, z := string(files["/etc/b64"].Content), string(files["/etc/gz"].Content); b != "hi" || z != "zipped" ||
				!files["/etc/more"].Append {
				t.Errorf("encoded files: %q, %q", b, z)
			}
			kubeadm := map[string]string{"init": "/run/kubeadm/kubeadm.yaml"}[name]
			if kubeadm == "" {
				kubeadm = "/run/kubeadm/kubeadm-join-config.yaml"
			}
			if got := string(files[kubeadm].Content); !strings.Contains(got, "name: 'cp-1'") || strings.HasPrefix(got, " ") {
				t.Errorf("%s: %q", kubeadm, got)
			}
			if key := files["/etc/kubernetes/pki/etcd/ca.key"]; name != "node" && (string(key.Content) != "a key\n" || key.Mode != 0o600 ||
				key.Owner != "root:root") {
				t.Errorf("a key: %+v", key)
			}
			b := base()
			if len(c.Bootcmd) != 2 || c.Bootcmd[0].Line != b.BootCommands[0] || len(c.Runcmd) != 4 ||
				c.Runcmd[0].Line != b.PreKubeadmCommands[0] || c.Runcmd[1].Line != b.PreKubeadmCommands[1] ||
				c.Runcmd[3].Line != b.PostKubeadmCommands[0] {
				t.Errorf("commands: %q %q", c.Bootcmd, c.Runcmd)
			}
			if line := c.Runcmd[2].Line; !strings.HasPrefix(line, "kubeadm ") || !strings.Contains(line, "-v 5") ||
				!strings.Contains(line, Sentinel) {
				t.Errorf("kubeadm's command: %q", line)
			}
			if len(c.Users) != 2 || c.Users[0].PrimaryGroup != "staff" || c.Users[0].Inactive != "0" || c.NTP == nil || len(c.NTP.Servers) != 2 {
				t.Errorf("%+v %+v", c.Users, c.NTP)
			}
		})
	}
}

func TestUpstreamDisks(t *testing.T) {
	data := base()
	data.DiskSetup = &bootstrapv1.DiskSetup{
		Partitions:  []bootstrapv1.Partition{{Device: "sda", Layout: ptrTo(true)}},
		Filesystems: []bootstrapv1.Filesystem{{Device: "sda", Filesystem: "ext4", Label: "l"}},
	}
	written, err := upstream.NewNode(&upstream.NodeInput{BaseUserData: data})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(written, meta); Unsupported(err) != "disk_setup" {
		t.Errorf("disks: %v", err)
	}
}
