package drift

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/core/steps"
)

// filesPart is where a kubeadmConfigSpec has the files.
const filesPart = "files"

// goalFile identifies a file that machines are to have, without what it holds.
type goalFile struct {
	Path string `json:"path"`
	Hash string `json:"hash"`
}

// FileHash identifies all that is said of a file, by 10 hexadecimal digits. Of one that refers to a secret it is the reference that counts.
func FileHash(f bootstrapv1.File) string {
	sum := sha256.Sum256(encode(f))
	return fmt.Sprintf("%x", sum[:5])
}

// goalFiles are the files as a goal shows them.
func goalFiles(files []bootstrapv1.File) []goalFile {
	var list []goalFile
	for _, f := range files {
		list = append(list, goalFile{Path: f.Path, Hash: FileHash(f)})
	}
	return list
}

// boot is what tells that a content is filled in at the first boot.
var boot = []string{"{{", "{%", "{#"}

// FilledIn reports whether a content, as it is written in the spec or in a secret, is filled in by cloud-init at a machine's first boot.
func FilledIn(content string) bool {
	return slices.ContainsFunc(boot, func(mark string) bool { return strings.Contains(content, mark) })
}

// fixedFile says why a file cannot become the wanted one on a live node; empty: it can. was and want are those of its path.
func fixedFile(was, want []bootstrapv1.File, config *bootstrapv1.KubeadmConfigSpec) string {
	switch {
	case len(want) == 0:
		return "what was there before the file is not known"
	case len(was) > 1 || len(want) > 1:
		return "it is written in more than one piece"
	}
	f := want[0]
	if why := steps.HeldFile(f.Path); why != "" {
		return why
	}
	if why := ownedFile(f.Path, config); why != "" {
		return why
	}
	appends := func(f bootstrapv1.File) bool { return f.Append != nil && *f.Append }
	if appends(f) || slices.ContainsFunc(was, appends) {
		return "it is appended to what is not known"
	}
	if f.ContentFormat == bootstrapv1.FileContentFormatTemplate || FilledIn(f.Content) {
		return "the content is filled in at the machine's first boot"
	}
	if !plainPermissions(f.Permissions) {
		return "its permissions are none that a file is given here"
	}
	return ""
}

// ownedFile returns why a file in a folder that the configuration names is not changed on a live node; "" for other files.
func ownedFile(path string, config *bootstrapv1.KubeadmConfigSpec) string {
	is := func(folder string) bool { return folder != "" && steps.Below(path, folder) }
	cluster := config.ClusterConfiguration
	switch {
	case is(cluster.CertificatesDir), is(config.InitConfiguration.Patches.Directory), is(config.JoinConfiguration.Patches.Directory):
		return "kubeadm used it when it made the node"
	case is(cluster.Etcd.Local.DataDir):
		return "it is etcd's"
	}
	return ""
}

// plainPermissions reports whether permissions are octal and at most 0777, or not said.
func plainPermissions(permissions string) bool {
	mode, err := strconv.ParseUint(permissions, 8, 32)
	return permissions == "" || err == nil && mode <= 0o777
}

// filesAt are the files of a path.
func filesAt(files []bootstrapv1.File, path string) []bootstrapv1.File {
	return slices.DeleteFunc(slices.Clone(files), func(f bootstrapv1.File) bool { return f.Path != path })
}

// judgeFiles notes on the differences of files which of them take another machine.
func judgeFiles(found []Difference, was []bootstrapv1.File, want *bootstrapv1.KubeadmConfigSpec) []Difference {
	for _, f := range slices.Concat(was, want.Files) {
		field := spec.field + "." + filesPart + "[" + f.Path + "]"
		for i, d := range found {
			if rest, ok := strings.CutPrefix(d.Field, field); ok && (rest == "" || rest[0] == '.') {
				found[i].fixed = fixedFile(filesAt(was, f.Path), filesAt(want.Files, f.Path), want)
			}
		}
	}
	return found
}

// ofFile says why a difference of files takes another machine; empty: it does not.
func ofFile(d Difference) string {
	if !strings.HasPrefix(d.Field, spec.field+"."+filesPart+"[") {
		return "it depends on the file"
	}
	return d.fixed
}

// Files are the files that the goal has and a machine was not made with as they are, and that can be written on a live node. Known is false
// where nothing is known of them.
func (g Goal) Files(m Machine) (files []bootstrapv1.File, known bool) {
	if m.Config == nil || g.files == nil {
		return nil, false
	}
	at := spec.member(filesPart)
	for _, f := range g.files.Files {
		was := filesAt(m.Config.Spec.Files, f.Path)
		differs := len(was) == 0 || len(compare(at.element(f.Path), tree(was[0]), tree(f))) > 0
		if differs && fixedFile(was, filesAt(g.files.Files, f.Path), g.files) == "" {
			files = append(files, f)
		}
	}
	return files, true
}

// RecordFiles writes the files into what a machine was made from, as they are once the machine was brought to the goal. Of a goal that was
// only read, what files hold is not known: those that it had another way lose their content, so that they are found to differ from whatever
// is wanted.
func (g Goal) RecordFiles(config *bootstrapv1.KubeadmConfigSpec) {
	if g.files != nil {
		config.Files = nil
		for _, f := range g.files.Files {
			config.Files = append(config.Files, *f.DeepCopy())
		}
		return
	}
	g.DoubtFiles(config)
}

// DoubtFiles has what a machine was made from say that it is not known what those of its files hold that the goal has another way: there
// is no report that they were written. It reports whether there are such.
func (g Goal) DoubtFiles(config *bootstrapv1.KubeadmConfigSpec) bool {
	doubted := false
	for _, goal := range g.KubeadmConfig.Files {
		i := slices.IndexFunc(config.Files, func(f bootstrapv1.File) bool { return f.Path == goal.Path })
		switch {
		case i < 0:
			config.Files, doubted = append(config.Files, unknownFile(goal.Path)), true
		case FileHash(config.Files[i]) != goal.Hash:
			config.Files[i], doubted = unknownFile(goal.Path), true
		}
	}
	return doubted
}

// unknownFile is a file whose content is not known: no user wants one like it.
func unknownFile(path string) bootstrapv1.File {
	return bootstrapv1.File{Path: path, Owner: "unknown:unknown"}
}
