package inventory

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/pki"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// made is a certificate and its key.
type made struct {
	*x509.Certificate
	key crypto.Signer
}

// issue makes a certificate of a common name that ends after a time.
func issue(t *testing.T, by *made, name string, life time.Duration, change ...func(*x509.Certificate)) *made {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-day),
		NotAfter: now.Add(life), BasicConstraintsValid: true, IsCA: by == nil}
	for _, c := range change {
		c(template)
	}
	parent, signer := template, crypto.Signer(key)
	if by != nil {
		parent, signer = by.Certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &made{cert, key}
}

func (m *made) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Raw})
}

func (m *made) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(m.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func file(name, location string, texts ...[]byte) Material {
	return Material{Where: File, Machine: "m1", Location: location, Name: name, Contents: pki.Read(slices.Concat(texts...))}
}

// reasons are the warnings of each entry, by name.
func reasons(i Inventory) string {
	var all []string
	for _, e := range i.Entries {
		var of []string
		for _, w := range e.Warnings {
			of = append(of, w.Reason)
		}
		all = append(all, e.Name+":"+strings.Join(of, "+"))
	}
	return strings.Join(all, " ")
}

// TestWarnings has each thing that can be wrong with a certificate.
func TestWarnings(t *testing.T) {
	ca, other := issue(t, nil, "kubernetes", 3650*day), issue(t, nil, "kubernetes", 3650*day)
	short, etcd := issue(t, nil, "short", 50*day), issue(t, nil, "etcd-ca", 3650*day)
	authorities := []Material{file(ClusterCA, "ca.crt", ca.pem(), short.pem()), file(EtcdCA, "etcd/ca.crt", etcd.pem())}
	never := func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(-time.Hour) }
	later := func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) }
	for name, c := range map[string]struct {
		of   Material
		want string
	}{
		"well":              {file(APIServer, "x", issue(t, ca, "a", 365*day).pem()), ""},
		"30 days and a bit": {file(APIServer, "x", issue(t, ca, "a", Soon+time.Second).pem()), ""},
		"soon":              {file(APIServer, "x", issue(t, ca, "a", Soon-time.Second).pem()), EndsSoon},
		"ended":             {file(APIServer, "x", issue(t, ca, "a", -time.Second).pem()), Expired},
		"not yet":           {file(APIServer, "x", issue(t, ca, "a", 60*day, later).pem()), NotYetValid},
		"never":             {file(APIServer, "x", issue(t, ca, "a", 0, never).pem()), NeverValid},
		"outlives":          {file(APIServer, "x", issue(t, short, "a", 60*day).pem()), OutlivesAuthority},
		"of nobody":         {file(APIServer, "x", issue(t, other, "a", 60*day).pem()), UnknownAuthority},
		"of another":        {file(APIServer, "x", issue(t, etcd, "a", 60*day).pem()), UnknownAuthority},
		"any authority":     {file(Other, "x", issue(t, etcd, "a", 60*day).pem()), ""},
		"key beside":        {file(APIServer, "x", issue(t, ca, "a", 60*day).pem(), other.keyPEM(t)), PrivateKeyBeside},
		"key beside, as it must": {
			file(KubeletClient, "x", issue(t, ca, "a", 60*day).pem(), other.keyPEM(t)), "",
		},
		"self-signed": {file(KubeletServer, "kubelet.crt", issue(t, nil, "a", 60*day, func(c *x509.Certificate) { c.IsCA = false }).pem()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := List(append(slices.Clone(authorities), c.of), nil, now)
			at := slices.IndexFunc(got.Entries, func(e Entry) bool { return e.Location == c.of.Location && !e.Key })
			var found []string
			for _, w := range got.Entries[at].Warnings {
				found = append(found, w.Reason)
			}
			if strings.Join(found, " ") != c.want {
				t.Errorf("warnings %q, want %q", got.Entries[at].Warnings, c.want)
			}
		})
	}
}

// TestChain: the chain at the same place counts, and a kubelet's own authority is not the cluster's.
func TestChain(t *testing.T) {
	own, ca := issue(t, nil, "node-ca@1", 365*day), issue(t, nil, "kubernetes", 3650*day)
	leaf := issue(t, own, "node@1", 365*day)
	got := List([]Material{file(ClusterCA, "ca.crt", ca.pem()), file(KubeletServer, "kubelet.crt", leaf.pem(), own.pem())}, nil, now)
	if r := reasons(got); r != "kubelet-server: kubelet-server: ca:" {
		t.Errorf("found %s", r)
	}
	got = List([]Material{file(APIServer, "a", issue(t, ca, "x", day*60).pem())}, nil, now)
	if r := reasons(got); r != "apiserver:" {
		t.Errorf("no authority is known, and %s", r)
	}
	// What a server shows as its authority proves nothing.
	shown := Material{Where: Handshake, Name: ClusterCA, Contents: pki.Read(ca.pem())}
	got = List([]Material{shown, file(ClusterCA, "ca.crt", own.pem()), file(APIServer, "a", issue(t, ca, "x", day*60).pem())}, nil, now)
	if r := reasons(got); !strings.HasPrefix(r, "apiserver:UnknownAuthority") {
		t.Errorf("found %s", r)
	}
}

// TestTwice: the same certificate twice in one text is listed twice, and the second is told.
func TestTwice(t *testing.T) {
	ca := issue(t, nil, "kubernetes", 3650*day)
	got := List([]Material{file(ClusterCA, "ca.crt", ca.pem(), ca.pem())}, nil, now)
	if r := reasons(got); r != "ca: ca:Duplicate" {
		t.Errorf("found %s", r)
	}
}

// TestWeak: a short RSA key, and a signature that nobody takes any more.
func TestWeak(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip("this Go makes no short keys: ", err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	got := List([]Material{file(ServiceAccount, "sa.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}, nil, now)
	if e := got.Entries[0]; !has(e, WeakKey) || e.KeyKind != "RSA 1024" || !e.Key || e.Private {
		t.Errorf("found %+v", e)
	}
	cert := issue(t, nil, "x", 60*day)
	cert.SignatureAlgorithm = x509.SHA1WithRSA
	var e Entry
	judgeStrength(&e, cert.Certificate)
	if !has(e, WeakSignature) {
		t.Errorf("found %+v", e)
	}
}

// TestRenewal says what renews each certificate.
func TestRenewal(t *testing.T) {
	ca := issue(t, nil, "kubernetes", 3650*day)
	leaf := issue(t, ca, "a", 60*day)
	secret := func(name string, managed bool, texts ...[]byte) Material {
		return Material{Where: Secret, Location: "demo-" + name, Name: name, Managed: managed, Contents: pki.Read(slices.Concat(texts...))}
	}
	inPlace := func(m Material) Material { m.InPlace = true; return m }
	for _, c := range []struct {
		of   Material
		want string
	}{
		{secret(Kubeconfig, true, leaf.pem()), "kubeconfig=Manager"},
		{secret(Kubeconfig, true, ca.pem()), "ca=Nobody"},
		{secret(Kubeconfig, false, leaf.pem()), "kubeconfig=Nobody"},
		{secret(ClusterCA, true, ca.pem(), ca.keyPEM(t)), "ca=Nobody ca=Nobody"},
		{file(ClusterCA, "ca.crt", ca.pem()), "ca=Nobody"},
		{file(APIServer, "x", leaf.pem()), "apiserver=Replacement"},
		{inPlace(file(APIServer, "x", leaf.pem())), "apiserver=UpdateInPlace"},
		{inPlace(file(AdminConf, "x", leaf.pem())), "admin.conf=UpdateInPlace"},
		{inPlace(file(KubeletClient, "x", leaf.pem(), leaf.keyPEM(t))), "kubelet-client=Kubelet kubelet-client=Nobody"},
		{inPlace(file(KubeletServer, "/a/kubelet-server-current.pem", leaf.pem())), "kubelet-server=Kubelet"},
		{inPlace(file(KubeletServer, "/a/kubelet.crt", leaf.pem())), "kubelet-server=Replacement"},
		{inPlace(file(Other, "x", leaf.pem())), "other=Nobody"},
		{inPlace(Material{Where: Handshake, Name: EtcdServer, Contents: pki.Read(leaf.pem())}), "etcd-server=UpdateInPlace"},
	} {
		var found []string
		for _, e := range List([]Material{c.of}, nil, now).Entries {
			found = append(found, e.Name+"="+string(e.RenewedBy))
		}
		if got := strings.Join(found, " "); got != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.of.Where, c.of.Name, c.of.Location, got, c.want)
		}
	}
}

// TestKubeletServer: a serving certificate that the cluster's authority signed is renewed by the kubelet, wherever it is seen.
func TestKubeletServer(t *testing.T) {
	ca, own := issue(t, nil, "kubernetes", 3650*day), issue(t, nil, "node-ca@1", 365*day)
	for by, want := range map[*made]Renewal{ca: ByKubelet, own: ByReplacement} {
		shown := Material{Where: Handshake, Name: KubeletServer, Contents: pki.Read(issue(t, by, "node", 60*day).pem())}
		got := List([]Material{file(ClusterCA, "ca.crt", ca.pem()), shown}, nil, now)
		if e := got.Entries[0]; e.Name != KubeletServer || e.RenewedBy != want {
			t.Errorf("found %+v, want %s", e, want)
		}
	}
}

// TestFileName knows what kubeadm and the kubelet write.
func TestFileName(t *testing.T) {
	for file, want := range map[string]string{
		"/etc/kubernetes/pki/ca.crt": ClusterCA, "/etc/kubernetes/pki/etcd/ca.crt": EtcdCA, "/etc/kubernetes/pki/sa.pub": ServiceAccount,
		"/etc/kubernetes/pki/etcd/healthcheck-client.key": EtcdHealthcheckClient, "/etc/kubernetes/scheduler.conf": SchedulerConf,
		"/var/lib/kubelet/pki/kubelet-client-current.pem": KubeletClient, "/var/lib/kubelet/pki/kubelet.crt": KubeletServer,
		"/etc/kubernetes/pki/mine.crt": Other, "/etc/kubernetes/pki/ca.srl": Other,
	} {
		got, known := FileName("/etc/kubernetes/pki", file)
		if got != want || known != (want != Other) {
			t.Errorf("%s: %s, known %t; want %s", file, got, known, want)
		}
	}
}

// TestOrder: the first to end is first, keys are last, and what could not be read is told.
func TestOrder(t *testing.T) {
	ca := issue(t, nil, "kubernetes", 3650*day)
	name := func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{"kubernetes"}, []net.IP{net.IPv4(10, 0, 0, 1)}
	}
	got := List([]Material{
		file(ClusterCA, "ca.crt", ca.pem()), file(ClusterCA, "ca.key", ca.keyPEM(t)),
		file(APIServer, "b", issue(t, ca, "b", 80*day).pem()), file(APIServer, "a", issue(t, ca, "a", 40*day, name).pem()),
		file(Other, "nothing", []byte("x")), {Where: Secret, Location: "gone", Problem: "does not exist"},
	}, []Unseen{{Where: Handshake, Machine: "m2", Location: "6443", Why: "no answer"}}, now)
	var order []string
	for _, e := range got.Entries {
		order = append(order, e.Location)
	}
	if fmt.Sprint(order) != "[a b ca.crt ca.key]" || got.Certificates() != 3 {
		t.Errorf("order %s", order)
	}
	if names := got.Entries[0].Names; !slices.Equal(names, []string{"kubernetes", "10.0.0.1"}) {
		t.Errorf("names %s", names)
	}
	want := "[{File m1 nothing holds no PEM block} {Handshake m2 6443 no answer} {Secret  gone does not exist}]"
	if fmt.Sprint(got.Unseen) != want {
		t.Errorf("unseen %v", got.Unseen)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), "PRIVATE") {
		t.Errorf("%s, %v", text, err)
	}
	if e := got.Entries[3]; e.PublicKey != got.Entries[2].PublicKey || !e.Private {
		t.Errorf("the key is not that of its certificate: %+v", e)
	}
}

// TestYears: no date of a certificate keeps an inventory from being written.
func TestYears(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -14*3600)),
		time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 14*3600)),
	} {
		if _, err := json.Marshal(Entry{NotAfter: bounded(at)}); err != nil || bounded(at).IsZero() {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestKubeconfig: what a kubeconfig holds itself is read, and what cannot be is told without being quoted.
func TestKubeconfig(t *testing.T) {
	ca := issue(t, nil, "kubernetes", 3650*day)
	leaf := issue(t, ca, "admin", 60*day)
	in := base64.StdEncoding.EncodeToString
	config := fmt.Sprintf("clusters: [{cluster: {certificate-authority-data: %s}}]\n"+
		"users:\n- user: {client-certificate-data: %s, client-key-data: %s}\n"+
		"- user: {client-certificate: /var/lib/x.pem, token: secret-token}\n", in(ca.pem()), in(leaf.pem()), in(leaf.keyPEM(t)))
	got, err := ReadKubeconfig([]byte(config))
	if err != nil || len(got.Certificates) != 2 || len(got.Private) != 1 || len(got.Unread) != 0 {
		t.Errorf("found %+v, %v", got, err)
	}
	listed := List([]Material{{Where: File, Name: AdminConf, Location: "admin.conf", Contents: got}}, nil, now)
	if r := reasons(listed); r != "admin.conf: ca: admin.conf:" {
		t.Errorf("found %s", r)
	}
	for text, want := range map[string]string{
		"secret-token: [": "cannot be parsed as a kubeconfig", strings.Repeat("#", mostKubeconfig+1): "is too large for a kubeconfig",
	} {
		if _, err := ReadKubeconfig([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	got, err = ReadKubeconfig([]byte("users: [{user: {client-certificate-data: '%%'}}]"))
	if err != nil || fmt.Sprint(got.Unread) != "[holds a value that is not in base64]" {
		t.Errorf("found %+v, %v", got, err)
	}
}

// TestManyOfOneName: certificates that all have the same issuer and subject cost a bounded time, and none is suspected unverified.
func TestManyOfOneName(t *testing.T) {
	ca := issue(t, nil, "kubernetes", 3650*day)
	var texts [][]byte
	for range 60 {
		texts = append(texts, issue(t, ca, "kubernetes", 60*day).pem())
	}
	got := List([]Material{file(ClusterCA, "ca.crt", ca.pem()), file(APIServer, "a", texts...)}, nil, now)
	if len(got.Entries) != 61 || len(got.Unseen) != 1 || !strings.Contains(got.Unseen[0].Why, "2000 signatures") {
		t.Errorf("%d entries, unseen %v", len(got.Entries), got.Unseen)
	}
	for _, e := range got.Entries[30:] {
		if has(e, UnknownAuthority) {
			t.Errorf("suspected: %+v", e)
		}
	}
}

// has reports whether an entry has a warning of a reason.
func has(e Entry, reason string) bool {
	return slices.ContainsFunc(e.Warnings, func(w Warning) bool { return w.Reason == reason })
}
