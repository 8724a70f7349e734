package inventory

import (
	"encoding/base64"
	"errors"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// mostKubeconfig is how many bytes of a kubeconfig are read.
const mostKubeconfig = 1 << 20

// ReadKubeconfig reads what a kubeconfig holds itself: authorities, client certificates and the public halves of keys. Tokens, and files
// that it names, are not looked at. The error quotes nothing of the text.
func ReadKubeconfig(text []byte) (pki.Contents, error) {
	if len(text) > mostKubeconfig {
		return pki.Contents{}, errors.New("is too large for a kubeconfig")
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Authority string `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Certificate string `json:"client-certificate-data"`
				Key         string `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if yaml.Unmarshal(text, &config) != nil {
		return pki.Contents{}, errors.New("cannot be parsed as a kubeconfig")
	}
	var all pki.Contents
	for _, c := range config.Clusters {
		join(&all, c.Cluster.Authority)
	}
	for _, u := range config.Users {
		join(&all, u.User.Certificate)
		join(&all, u.User.Key)
	}
	return all, nil
}

// join adds one value of a kubeconfig; empty: there is none.
func join(all *pki.Contents, value string) {
	if value == "" {
		return
	}
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		all.Unread = append(all.Unread, "holds a value that is not in base64")
		return
	}
	found := pki.Read(text)
	all.Certificates = append(all.Certificates, found.Certificates...)
	all.Private = append(all.Private, found.Private...)
	all.Public = append(all.Public, found.Public...)
	all.Unread = append(all.Unread, found.Unread...)
}
