package artifacts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/local/artifacts/image"
)

// content says what is inside an image, by the last part of the image's name.
type content struct {
	leaf     string   // the product that has the programs
	folder   string   // where they lie in the image; kubeadm's manifests call some by path
	programs []string // the first is the entry point
	nft      bool     // also the host's nft, which kube-proxy runs
	// tags are those by which any of the pinned versions of Kubernetes asks for it, where it has a version of
	// its own. In the middle of an upgrade the pods of the older cluster start on newer machines.
	tags []string
	// older: pods that ask for it by an older pinned version of Kubernetes, its own version, start too. In the middle of an upgrade those of
	// the older cluster are on newer machines, which without kube-proxy reach no Service.
	older bool
}

var contents = map[string]content{
	"kube-apiserver":          {leaf: "kubernetes", folder: "/usr/local/bin", programs: []string{"kube-apiserver"}},
	"kube-controller-manager": {leaf: "kubernetes", folder: "/usr/local/bin", programs: []string{"kube-controller-manager"}},
	"kube-scheduler":          {leaf: "kubernetes", folder: "/usr/local/bin", programs: []string{"kube-scheduler"}},
	"kube-proxy":              {leaf: "kubernetes", folder: "/usr/local/bin", programs: []string{"kube-proxy"}, nft: true, older: true},
	"etcd":                    {leaf: "etcd", folder: "/usr/local/bin", programs: []string{"etcd", "etcdctl", "etcdutl"}},
	"coredns": {leaf: "coredns", folder: "/", programs: []string{"coredns"}, tags: []string{"v1.14.6", "v1.14.2", "v1.13.1",
		"v1.12.1"}},
	"pause": {leaf: "pause", folder: "/", programs: []string{"pause"}},
}

// common is in every image: names for the users that processes run as, and the order in which names of hosts are looked up.
var common = []image.File{
	{Path: "/etc/passwd", Mode: 0o644,
		Text: "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"},
	{Path: "/etc/group", Mode: 0o644, Text: "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n"},
	{Path: "/etc/nsswitch.conf", Mode: 0o644, Text: "hosts: files dns\n"},
}

// protocols are in the image of kube-proxy. Without their names nft lists the numbers: kube-proxy, restarted, adds what is there under its
// name, and then deletes it as something that is not wanted any more.
var protocols = image.File{Path: "/etc/protocols", Mode: 0o644, Text: "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 " +
	"IPv6-ICMP\nsctp 132 SCTP\n"}

// images returns the product of all images that kubeadm of this version asks for. The names come from kubeadm itself.
func (m *maker) images() cache.Product {
	nft, nftDigest, nftErr := hostNft()
	p := cache.Product{
		Name: "images", Version: m.version,
		Inputs: cache.Sum("images", "1", fmt.Sprint(contents), fmt.Sprint(common), fmt.Sprint(protocols), fmt.Sprint(olderThan(m.version))),
		Host:   nftDigest, HostErr: nftErr,
		Needs: []cache.Need{{Bytes: 600 << 20}},
	}
	for _, leaf := range []string{"kubernetes", etcdOf(m.version), "coredns", "pause"} {
		p = dependOn(p, m.built[leaf])
	}
	p.Build = func(ctx context.Context, w cache.Workplace) error {
		names, err := imageNames(ctx, filepath.Join(m.folders["kubernetes"], "kubeadm"), m.version)
		if err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(2)
		for _, name := range names {
			group.Go(func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				w.Report("writing %s", name)
				return m.writeImage(w, name, nft)
			})
		}
		return group.Wait()
	}
	return p
}

// ImageFile is the file, among a Set's Images, of a component's image.
func ImageFile(component string) string { return component + ".tar" }

func (m *maker) writeImage(w cache.Workplace, name string, nft []image.File) error {
	base, err := baseName(name)
	if err != nil {
		return err
	}
	c := contents[base]
	leaf := c.leaf
	if leaf == "etcd" {
		leaf = etcdOf(m.version)
	}
	files := append([]image.File{}, common...)
	for _, program := range c.programs {
		files = append(files, image.File{
			Path: path.Join(c.folder, program), Source: filepath.Join(m.folders[leaf], program), Mode: 0o755,
		})
	}
	if c.nft {
		files = append(append(files, nft...), protocols)
	}
	also, err := c.otherNames(name)
	if err != nil {
		return err
	}
	return image.Write(filepath.Join(w.Out, ImageFile(base)), w.Work, image.Image{
		Name: name, Also: also, Entrypoint: []string{path.Join(c.folder, c.programs[0])}, Files: files,
	})
}

// otherNames returns the names by which other versions ask for an image.
func (c content) otherNames(name string) ([]string, error) {
	repository, tag, _ := strings.Cut(name, ":")
	if c.older {
		return withTags(repository, olderThan(tag)), nil
	}
	if len(c.tags) == 0 {
		return nil, nil
	}
	if !slices.Contains(c.tags, tag) {
		return nil, fmt.Errorf("image %s: kubeadm asks for the tag %s, and only %s are known: add it", name, tag, strings.Join(c.tags, ", "))
	}
	return withTags(repository, slices.DeleteFunc(slices.Clone(c.tags), func(other string) bool { return other == tag })), nil
}

// olderThan returns the pinned versions of Kubernetes that are older than one of them.
func olderThan(version string) []string {
	all := Versions()
	return all[slices.Index(all, version)+1:]
}

func withTags(repository string, tags []string) []string {
	var names []string
	for _, tag := range tags {
		names = append(names, repository+":"+tag)
	}
	return names
}

// imageNames asks kubeadm for the images of a version.
func imageNames(ctx context.Context, kubeadm, version string) ([]string, error) {
	output, err := outputOf(exec.CommandContext(ctx, kubeadm, "config", "images", "list", "--kubernetes-version", version))
	if err != nil {
		return nil, fmt.Errorf("asking kubeadm for the names of images: %w", err)
	}
	names := strings.Fields(string(output))
	for _, name := range names {
		if _, err := baseName(name); err != nil {
			return nil, err
		}
	}
	if len(names) != len(contents) {
		return nil, fmt.Errorf("asking kubeadm for the names of images: want %d of them, it lists %d: %s", len(contents), len(names),
			strings.Join(names, " "))
	}
	return names, nil
}

// outputOf runs a program and returns what it prints; the error has what it says.
func outputOf(cmd *exec.Cmd) ([]byte, error) {
	output, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, tailOf(string(exit.Stderr)))
	}
	return output, err
}

// baseName returns the last part of an image's name, without the tag. It is an error if nothing is known of that image.
func baseName(name string) (string, error) {
	base, _, _ := strings.Cut(path.Base(name), ":")
	if _, known := contents[base]; !known {
		return "", fmt.Errorf("image %s: how to make it is not known, only %s", name, strings.Join(sortedKeys(contents), ", "))
	}
	return base, nil
}

// hostNft returns the files of the host's nft, with the libraries that it links to, and a digest of them.
func hostNft() ([]image.File, cache.Digest, error) {
	program, err := findProgram("nft")
	if err != nil {
		return nil, "", fmt.Errorf("the image of kube-proxy needs nft (Debian's package nftables): %w", err)
	}
	files, err := image.Program(program)
	if err != nil {
		return nil, "", err
	}
	digests := make([]string, 0, 2*len(files))
	for _, file := range files {
		digest, err := cache.SumFile(file.Source)
		if err != nil {
			return nil, "", fmt.Errorf("computing the checksum of what nft needs: %w", err)
		}
		digests = append(digests, file.Path, string(digest))
	}
	// kube-proxy finds it in PATH wherever the host keeps it.
	for i := range files {
		if files[i].Path == program {
			files[i].Path = "/usr/sbin/nft"
		}
	}
	return files, cache.Sum(digests...), nil
}

// findProgram looks in PATH and then in the administrators' folders, which the PATH of su and sudo may lack.
func findProgram(name string) (string, error) {
	found, err := exec.LookPath(name)
	if err == nil {
		return filepath.Abs(found)
	}
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if info, statErr := os.Stat(filepath.Join(folder, name)); statErr == nil && info.Mode()&0o111 != 0 {
			return filepath.Join(folder, name), nil
		}
	}
	return "", err
}
