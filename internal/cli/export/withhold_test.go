package export

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestWithhold: what is secret in the files, commands, users, variables and annotations of real control planes is not written, and what is
// not is.
func TestWithhold(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("password: hunter2"))
	for text, secret := range map[string]string{
		`files: [{path: /etc/kubernetes/enc.yaml, content: "kind: EncryptionConfiguration\nresources: [{providers: [{aescbc: {keys: [{name: k, ` +
			`secret: c2VjcmV0}]}}]}]"}]`: "c2VjcmV0",
		`files: [{path: /root/.aws/config, content: "aws_secret_access_key = abcdef"}]`:                                   "abcdef",
		`files: [{path: /etc/kubernetes/azure.json, content: "{\"aadClientSecret\":\"abcdef\"}"}]`:                        "abcdef",
		`files: [{path: /etc/kubernetes/x, content: "application-credential-secret=abcdef"}]`:                             "abcdef",
		`files: [{path: /root/x.json, content: "{\"auths\":{\"r\":{\"auth\":\"abcdef\"}}}"}]`:                             "abcdef",
		`files: [{path: /etc/kubernetes/tokens.csv, content: "abcdef,admin,1"}]`:                                          "abcdef",
		`files: [{path: /etc/x, permissions: "0640", content: abcdef}]`:                                                   "abcdef",
		`files: [{path: /etc/x, permissions: rw, content: abcdef}]`:                                                       "abcdef",
		`files: [{path: /etc/x, encoding: base64, content: ` + encoded + `}]`:                                             encoded,
		`preKubeadmCommands: ["echo root:abcdef | chpasswd"]`:                                                             "abcdef",
		`preKubeadmCommands: ["curl -u me:abcdef https://x"]`:                                                             "abcdef",
		`preKubeadmCommands: ["wget https://me:abcdef@x/y"]`:                                                              "abcdef",
		`users: [{name: admin, passwd: abcdef}]`:                                                                          "abcdef",
		`initConfiguration: {certificateKey: abcdef}`:                                                                     "abcdef",
		`joinConfiguration: {discovery: {file: {kubeConfig: {user: {authProvider: {config: {client-secret: abcdef}}}}}}}`: "abcdef",
		`joinConfiguration: {discovery: {file: {kubeConfig: {user: {exec: {env: [{name: API_TOKEN, value: abcdef}]}}}}}}`: "abcdef",
		`clusterConfiguration: {apiServer: {extraArgs: [{name: some-password, value: abcdef}]}}`:                          "abcdef",
	} {
		if out, notes := withheld(t, text); strings.Contains(out, secret) || notes != 1 {
			t.Errorf("%s: %d notes, and it is written:\n%s", text, notes, out)
		}
	}
	for _, text := range []string{
		`files: [{path: /etc/motd, permissions: "0644", content: welcome}]`,
		`files: [{path: /etc/kube-proxy.yaml, permissions: "0644", owner: "root:root", content: "kind: KubeProxyConfiguration\nmode: nftables"}]`,
		`preKubeadmCommands: ["[ ! -f /run/kubeadm/kubeadm.yaml ] || cat /etc/quorate/kube-proxy.yaml >>/run/kubeadm/kubeadm.yaml"]`,
		`clusterConfiguration: {apiServer: {extraArgs: [{name: token-auth-file, value: /etc/kubernetes/t.csv}, {name: authorization-mode, ` +
			`value: "Node,RBAC"}]}}`,
		`clusterConfiguration: {apiServer: {extraArgs: [{name: service-account-key-file, value: /etc/kubernetes/sa.pub}]}}`,
		`users: [{name: admin, passwdFrom: {secret: {name: admin, key: value}}}]`,
	} {
		if out, notes := withheld(t, text); notes != 0 || strings.Contains(out, fillIn) {
			t.Errorf("%s: %d notes:\n%s", text, notes, out)
		}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"machineTemplate": map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{"example.com/api-token": "abcdef"},
	}}}}}
	if notes := withhold(o); len(notes) != 1 || strings.Contains(fmt.Sprint(o.Object), "abcdef") {
		t.Errorf("an annotation with a token is written: %v", o.Object)
	}
}

// withheld is what is written of a kubeadmConfigSpec, and how many texts of it are left out.
func withheld(t *testing.T, spec string) (string, int) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("spec: {kubeadmConfigSpec: {"+spec+"}}"), &o.Object); err != nil {
		t.Fatal(err)
	}
	notes := withhold(o)
	out, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), len(notes)
}
