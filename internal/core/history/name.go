package history

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Key is where in a ConfigMap's data the record is.
const Key = "history.json"

// shortKinds are the kinds of groups in short. None ends like another, so that no two groups of a namespace share a ConfigMap.
var shortKinds = map[string]string{"KubeadmControlPlane": "kcp", "ControlPlane": "cp", "EtcdCluster": "etcd"}

// longestName is how long the name of a ConfigMap may be.
const longestName = 253

// Name is that of the ConfigMap with the record of a group.
func Name(kind, name string) string {
	short := shortKinds[kind]
	if short == "" {
		short = strings.ToLower(kind)
	}
	suffix := "-" + short + "-quorate-history"
	if len(name)+len(suffix) <= longestName {
		return name + suffix
	}
	sum := sha256.Sum256([]byte(name))
	suffix = "-" + hex.EncodeToString(sum[:4]) + suffix
	return strings.TrimRight(name[:longestName-len(suffix)], "-.") + suffix
}
