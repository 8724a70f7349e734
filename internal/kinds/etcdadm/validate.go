package etcdadm

import (
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
)

// Validate returns what of a configuration cannot be carried out.
func Validate(spec *bootstrapv1alpha1.EtcdadmConfigSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if spec.Version != "" {
		all = append(all, invalid(at.Child("version"), spec.Version, WrongVersion(spec.Version))...)
	}
	if spec.ReleaseURL != "" {
		all = append(all, invalid(at.Child("releaseURL"), spec.ReleaseURL, wrongURL(spec.ReleaseURL))...)
	}
	if formats := []bootstrapv1alpha1.Format{bootstrapv1alpha1.CloudConfig, bootstrapv1alpha1.Ignition}; spec.Format != "" &&
		!slices.Contains(formats, spec.Format) {
		all = append(all, field.NotSupported(at.Child("format"), spec.Format, formats))
	}
	all = append(all, validateIgnition(spec, at)...)
	all = append(all, validateArgs(spec, at.Child("etcdadmArgs"))...)
	all = append(all, validateFiles(spec.Files, at.Child("files"))...)
	all = append(all, validateUsers(spec.Users, at.Child("users"))...)
	return append(all, validateProxy(spec.Proxy, at.Child("proxy"))...)
}

func invalid(at *field.Path, value, wrong string) field.ErrorList {
	if wrong == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, wrong)}
}

func validateArg(name, value string, at *field.Path) field.ErrorList {
	if why := reserved[name]; why != "" {
		return field.ErrorList{field.Forbidden(at, why)}
	}
	check, ok := accepted[name]
	if !ok {
		return field.ErrorList{field.NotSupported(at, name, Accepted())}
	}
	return invalid(at, value, check(value))
}

func validateArgs(spec *bootstrapv1alpha1.EtcdadmConfigSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	names := make([]string, 0, len(spec.EtcdadmArgs))
	for name := range spec.EtcdadmArgs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, validateArg(name, spec.EtcdadmArgs[name], at.Key(name))...)
	}
	for _, both := range [][2]string{{"version", spec.Version}, {"release-url", spec.ReleaseURL}} {
		name, other := both[0], both[1]
		value, ok := spec.EtcdadmArgs[name]
		if ok && other != "" && strings.TrimPrefix(value, "v") != strings.TrimPrefix(other, "v") {
			all = append(all, field.Invalid(at.Key(name), value, fmt.Sprintf("the field beside etcdadmArgs says %s: give one of them", other)))
		}
	}
	return all
}

// own are the files that Quorate writes.
var own = []string{
	pkiDir + "ca.crt", authorityKey, pkiDir + "etcdctl-etcd-client.crt", clientKey,
	dropIn, scriptFile, settingsFile, proxyFile, placeholder, seedCertificate, seedToken, startFile, seedDropIn,
}

func validateFiles(files []bootstrapv1.File, at *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, f := range files {
		item := at.Index(i)
		all = append(all, validateContent(f, item)...)
		clean := path.Clean(f.Path)
		switch {
		case !path.IsAbs(f.Path):
			all = append(all, field.Invalid(item.Child("path"), f.Path, "an absolute path is accepted"))
		case slices.Contains(own, clean):
			all = append(all, field.Forbidden(item.Child("path"), f.Path+" is written by Quorate"))
		case seen[clean]:
			all = append(all, field.Duplicate(item.Child("path"), f.Path))
		}
		seen[clean] = true
	}
	return all
}

// permissions are octal digits, as cloud-init reads them.
var permissions = matches(`^0?[0-7]{3,4}$`, "octal digits such as 0640 are accepted")

func validateContent(f bootstrapv1.File, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if f.Permissions != "" {
		all = append(all, invalid(at.Child("permissions"), f.Permissions, permissions(f.Permissions))...)
	}
	if f.ContentFrom.Secret.Name != "" && f.Content != "" {
		all = append(all, field.Invalid(at, f.Path, "content and contentFrom are both given: one of them is accepted"))
	}
	if f.ContentFormat != "" && f.ContentFormat != bootstrapv1.FileContentFormatRaw {
		all = append(all, field.NotSupported(at.Child("contentFormat"), f.ContentFormat,
			[]bootstrapv1.FileContentFormat{bootstrapv1.FileContentFormatRaw}))
	}
	return all
}

// validateIgnition returns what of a configuration Ignition does not support.
func validateIgnition(spec *bootstrapv1alpha1.EtcdadmConfigSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if spec.Format != bootstrapv1alpha1.Ignition {
		return nil
	}
	for i, u := range spec.Users {
		if u.Inactive != nil && *u.Inactive {
			all = append(all, field.Forbidden(at.Child("users").Index(i).Child("inactive"),
				"Ignition makes no inactive users: leave it out, or use the format cloud-config"))
		}
	}
	for i, f := range spec.Files {
		packed := f.Encoding == bootstrapv1.Base64 || f.Encoding == bootstrapv1.GzipBase64
		if _, err := base64.StdEncoding.DecodeString(f.Content); packed && f.ContentFrom.Secret.Name == "" && err != nil {
			all = append(all, field.Forbidden(at.Child("files").Index(i).Child("content"), "it is not base64, as its encoding says"))
		}
		if clean := path.Clean(f.Path); clean == commandsFile {
			all = append(all, field.Forbidden(at.Child("files").Index(i).Child("path"), f.Path+" is written by Quorate"))
		}
	}
	return all
}

func validateUsers(users []bootstrapv1.User, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, u := range users {
		if u.Passwd != "" && u.PasswdFrom.Secret.Name != "" {
			// The value is not repeated: it is a password's hash.
			all = append(all, field.Forbidden(at.Index(i), "passwd and passwdFrom are both given: one of them is accepted"))
		}
	}
	return all
}

func validateProxy(p bootstrapv1alpha1.ProxySpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, given := range [][2]string{{"httpProxy", p.HTTPProxy}, {"httpsProxy", p.HTTPSProxy}} {
		name, url := given[0], given[1]
		if url != "" && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") || strings.ContainsAny(url, " \t\r\n") {
			// The value is not repeated: it may hold a password.
			all = append(all, field.Forbidden(at.Child(name), "a URL with http or https is accepted"))
		}
	}
	return all
}
