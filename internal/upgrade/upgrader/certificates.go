package upgrader

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/cluster/pki"
	"github.com/quorate/quorate/internal/cluster/pki/inventory"
	"github.com/quorate/quorate/internal/program/envfile"
)

// certificatesCommand prints the public parts of the node's certificates and keys, and changes nothing.
const certificatesCommand = "certificates"

// Bounds of the look at files of certificates.
const (
	// mostCertificateFile is how many bytes of a file are read.
	mostCertificateFile = 1 << 20
	// mostCertificateFiles is how many files are read, and deepest how many folders below kubeadm's are.
	mostCertificateFiles = 400
	deepest              = 3
)

// kubeletPKI is the kubelet's folder of certificates where no flag names another one.
const kubeletPKI = kubeletDir + "/pki"

// nodeFiles are the files of a node in which certificates and keys are.
type nodeFiles struct{ layout }

// tellCertificates makes the node's files those of this process, which never ends that, and prints what they hold.
func tellCertificates(root string, out io.Writer) error {
	if err := syscall.Chroot(root); err != nil {
		return fmt.Errorf("entering the node's files at %s: %w", root, err)
	}
	told, err := nodeFiles{}.certificates()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(told)
}

// certificates reads the files of kubeadm and of the kubelet. A file that cannot be read is told as such.
func (l nodeFiles) certificates() (inventory.NodeFiles, error) {
	told := inventory.NodeFiles{Files: []inventory.NodeFile{}}
	f, err := l.look()
	if err != nil {
		f.certificates = "/etc/kubernetes/pki" // a manifest that cannot be read hides no certificate
		told.Files = append(told.Files, inventory.NodeFile{Path: manifestDir, Unread: []string{err.Error()}})
	}
	files, err := l.certificateFiles(f.certificates)
	if err != nil {
		return told, err
	}
	if over := len(files) - mostCertificateFiles; over > 0 {
		files = files[:mostCertificateFiles]
		why := fmt.Sprintf("%d more files are not read", over)
		told.Files = append(told.Files, inventory.NodeFile{Path: f.certificates, Unread: []string{why}})
	}
	for _, path := range files {
		told.Files = append(told.Files, l.certificateFile(f.certificates, path))
	}
	return told, nil
}

// certificateFiles are the paths of the files in which certificates and keys are, sorted.
func (l nodeFiles) certificateFiles(folder string) ([]string, error) {
	var files []string
	add := func(path string) {
		if !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	base := l.onNode(folder)
	err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		switch rest := strings.TrimPrefix(path, base); {
		case errors.Is(err, fs.ErrNotExist): // a worker has no such folder, or the file went
			return nil
		case err != nil:
			return err
		case entry.IsDir() && strings.Count(rest, "/") > deepest:
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".crt", ".key", ".pub", ".pem"}, filepath.Ext(path)):
			add(filepath.Join(folder, rest))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for certificates: %w", err)
	}
	kubelet, err := l.kubeletCertificates()
	if err != nil {
		return nil, err
	}
	patterns := []string{kubernetesDir + "/*.conf", kubelet + "/*-current.pem", kubelet + "/kubelet.crt", kubelet + "/kubelet.key"}
	for _, pattern := range patterns {
		found, err := filepath.Glob(l.onNode(pattern))
		if err != nil {
			return nil, fmt.Errorf("looking for certificates: %w", err)
		}
		for _, path := range found {
			add(filepath.Join(filepath.Dir(pattern), filepath.Base(path)))
		}
	}
	slices.Sort(files)
	return files, nil
}

// kubeletCertificates is the kubelet's folder of certificates: its flag names it, or else it is the default.
func (l nodeFiles) kubeletCertificates() (string, error) {
	folder := kubeletPKI
	for _, source := range flagFiles {
		flags, err := optional(l.onNode(source.file))
		if err != nil {
			return "", err
		}
		value, _ := envfile.Get(flags, source.variable)
		for _, f := range flagsIn(value) {
			if f.name() == "cert-dir" && filepath.IsAbs(f.value()) {
				folder = filepath.Clean(f.value())
			}
		}
	}
	return folder, nil
}

// certificateFile reads one file. Errors name no content.
func (l nodeFiles) certificateFile(folder, path string) inventory.NodeFile {
	name, _ := inventory.FileName(folder, path)
	text, err := readAtMost(l.onNode(path), mostCertificateFile)
	if err != nil {
		return inventory.NodeFile{Path: path, Name: name, Unread: []string{err.Error()}}
	}
	if filepath.Ext(path) != ".conf" {
		return inventory.NewNodeFile(path, name, pki.Read(text))
	}
	contents, err := inventory.ReadKubeconfig(text)
	if err != nil {
		contents.Unread = append(contents.Unread, err.Error())
	}
	return inventory.NewNodeFile(path, name, contents)
}

// readAtMost reads a plain file of a bounded size: a pipe would never end.
func readAtMost(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New("cannot be opened: " + cause(err))
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, errors.New("cannot be read: " + cause(err))
	case !info.Mode().IsRegular():
		return nil, errors.New("is no plain file")
	case info.Size() > most:
		return nil, fmt.Errorf("has %d bytes: at most %d are read", info.Size(), most)
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return nil, errors.New("cannot be read: " + cause(err))
	}
	return text, nil
}

// cause is an error without the path, which is told beside it.
func cause(err error) string {
	if of, is := errors.AsType[*fs.PathError](err); is {
		return of.Err.Error()
	}
	return err.Error()
}
