package kubeconfig

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Own returns how the cluster of the reader's own kubeconfig is reached, as kubectl finds it. The file is the one that is named,
// else those of KUBECONFIG, else ~/.kube/config. Of its contexts it is the one that is named, else the current one. What the reader wrote
// may run commands and read files, unlike what Load reads.
func Own(file, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading your kubeconfig: %w", err)
	}
	return config, nil
}
