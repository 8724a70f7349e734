//go:build pin

// This file is temporary: it keeps the module requirements while packages are written.

package pin

import (
	_ "github.com/google/go-containerregistry/pkg/v1/tarball"
	_ "github.com/google/go-containerregistry/pkg/v1/mutate"
	_ "github.com/spf13/cobra"
	_ "github.com/vishvananda/netlink"
	_ "github.com/vishvananda/netns"
	_ "github.com/blang/semver/v4"
	_ "go.etcd.io/etcd/client/v3"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/term"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	_ "k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/tools/portforward"
	_ "k8s.io/client-go/transport/spdy"
	_ "k8s.io/cluster-bootstrap/token/api"
	_ "k8s.io/component-base/logs"
	_ "k8s.io/klog/v2"
	_ "k8s.io/utils/ptr"
	_ "sigs.k8s.io/cluster-api/api/core/v1beta2"
	_ "sigs.k8s.io/cluster-api/bootstrap/kubeadm/reconcilers/kubeadmconfig"
	_ "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"
	_ "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/conversion"
	_ "sigs.k8s.io/cluster-api/bootstrap/kubeadm/setup"
	_ "sigs.k8s.io/cluster-api/controllers/clustercache"
	_ "sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	_ "sigs.k8s.io/cluster-api/core/webhooks/admission"
	_ "sigs.k8s.io/cluster-api/core/setup"
	_ "sigs.k8s.io/cluster-api/cmd/clusterctl/client/tree"
	_ "sigs.k8s.io/cluster-api/util/secret"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/yaml"
	_ "pgregory.net/rapid"
	_ "github.com/gofrs/flock"
)
