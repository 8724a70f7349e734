package certs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// mostUnpacked is how much of a compressed file is read. Certificates and keys are far smaller.
const mostUnpacked = 1 << 20

// roles are those of the secrets.
var roles = map[secret.Purpose]pki.Role{
	secret.ClusterCA:           pki.ClusterCA,
	secret.FrontProxyCA:        pki.FrontProxyCA,
	secret.EtcdCA:              pki.EtcdCA,
	secret.ServiceAccount:      pki.ServiceAccount,
	secret.APIServerEtcdClient: pki.APIServerEtcdClient,
}

// half is the place of a certificate, or of a key, on machines.
type half struct {
	role pki.Role
	key  bool
}

// places are where the bootstrap provider puts on machines what the secrets hold.
func places(wanted secret.Certificates) map[string]half {
	all := map[string]half{}
	for _, w := range wanted {
		all[w.CertFile], all[w.KeyFile] = half{role: roles[w.Purpose]}, half{role: roles[w.Purpose], key: true}
	}
	delete(all, "")
	return all
}

// halfAt returns what lies at a path of machines; false: none of kubeadm's certificates.
func halfAt(file string, config *bootstrapv1.ClusterConfiguration, of map[string]half) (half, bool) {
	if h, ok := of[file]; ok {
		return h, true
	}
	folder, external := secret.DefaultCertificatesDir, false
	if config != nil {
		folder, external = cmp.Or(config.CertificatesDir, folder), config.Etcd.External.IsDefined()
	}
	role, key, known := pki.RoleOf(folder, file)
	ofEtcd := strings.HasPrefix(string(role), "etcd/") || role == pki.APIServerEtcdClient
	if external && ofEtcd {
		return half{}, false // an etcd elsewhere has its files where the configuration says
	}
	return half{role, key}, known
}

// readFiles reads those of the files that users copy to machines which are certificates and keys, by what they are for. A file that is
// appended to another, or is a template, is not known before a machine has it, and nothing is said of its pair.
func readFiles(
	ctx context.Context, c client.Reader, namespace string, config *bootstrapv1.ClusterConfiguration, files []bootstrapv1.File,
) (map[pki.Role]pki.Pair, error) {
	pairs, of := map[pki.Role]pki.Pair{}, places(secret.NewCertificatesForInitialControlPlane(config))
	unknown := map[pki.Role]bool{}
	for _, f := range files {
		h, known := halfAt(path.Clean(f.Path), config, of)
		if !known {
			continue
		}
		if ptr.Deref(f.Append, false) || f.ContentFormat == bootstrapv1.FileContentFormatTemplate {
			unknown[h.role] = true
			continue
		}
		d, err := readFile(ctx, c, namespace, f)
		if err != nil {
			return nil, err
		}
		pairs[h.role] = withHalf(pairs[h.role], h, d, "file "+otherHalf(path.Clean(f.Path), h, of))
	}
	maps.DeleteFunc(pairs, func(role pki.Role, _ pki.Pair) bool { return unknown[role] })
	return pairs, nil
}

// withHalf returns a pair with one half of it, of which the other would lie elsewhere.
func withHalf(p pki.Pair, h half, d pki.Datum, elsewhere string) pki.Pair {
	p.Role, p.File = h.role, true
	mine, other := &p.Cert, &p.Key
	if h.key {
		mine, other = other, mine
	}
	*mine, other.Where = d, cmp.Or(other.Where, elsewhere)
	return p
}

// otherHalf is the path of the key of a certificate, and of the certificate of a key.
func otherHalf(file string, h half, of map[string]half) string {
	for other, at := range of {
		if at.role == h.role && at.key != h.key {
			return other
		}
	}
	ending := ".key"
	if h.key {
		ending = ".crt"
	}
	return strings.TrimSuffix(file, path.Ext(file)) + ending
}

// readFile reads one file. That what it refers to is not there is a flaw of the file, no error.
func readFile(ctx context.Context, c client.Reader, namespace string, f bootstrapv1.File) (pki.Datum, error) {
	d := pki.Datum{Where: "file " + f.Path}
	content := []byte(f.Content)
	if f.ContentFrom.IsDefined() {
		from := f.ContentFrom.Secret
		name := namespace + "/" + from.Name
		d.Where += fmt.Sprintf(" (secret %s: %s)", name, from.Key)
		found := &corev1.Secret{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: from.Name}, found)
		if client.IgnoreNotFound(err) != nil {
			return d, fmt.Errorf("reading secret %s: %w", name, err)
		}
		content = found.Data[from.Key]
		switch {
		case apierrors.IsNotFound(err):
			d.Unreadable = "refers to a secret that does not exist"
		case len(content) == 0:
			d.Unreadable = "refers to a key that the secret does not have"
		}
	}
	if d.Unreadable == "" {
		var err error
		if d.PEM, err = Decode(content, f.Encoding); err != nil || len(d.PEM) == 0 {
			d.Unreadable = fmt.Sprintf("holds nothing that is encoded as %q", f.Encoding)
		}
	}
	return d, nil
}

// Decode undoes a file's encoding, as cloud-init does. What is more than 1 MiB when it is unpacked is an error.
func Decode(content []byte, encoding bootstrapv1.Encoding) ([]byte, error) {
	var err error
	if encoding == bootstrapv1.Base64 || encoding == bootstrapv1.GzipBase64 {
		if content, err = base64.StdEncoding.DecodeString(string(bytes.TrimSpace(content))); err != nil {
			return nil, err
		}
	}
	if encoding == bootstrapv1.Gzip || encoding == bootstrapv1.GzipBase64 {
		r, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		if content, err = io.ReadAll(io.LimitReader(r, mostUnpacked+1)); err == nil && len(content) > mostUnpacked {
			return nil, fmt.Errorf("unpacked it has more than %d bytes", mostUnpacked)
		}
		return content, err
	}
	return content, nil
}

// sorted are pairs in an order that does not change.
func sorted(pairs map[pki.Role]pki.Pair) []pki.Pair {
	var all []pki.Pair
	for _, p := range pairs {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b pki.Pair) int { return cmp.Compare(a.Role, b.Role) })
	return all
}
