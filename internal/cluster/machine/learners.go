package machine

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/version"
)

// learnerFlags are etcd's flags for how many learners it takes at once: that of 3.6, and that of 3.5.
var learnerFlags = []string{"--max-learners", "--experimental-max-learners"}

// learnerVariables are the variables that etcd reads for these flags.
var learnerVariables = []string{"ETCD_MAX_LEARNERS", "ETCD_EXPERIMENTAL_MAX_LEARNERS"}

// configFlag and configVariable name a file on the machine, which cannot be read here. etcd then reads no other flag or variable.
const (
	configFlag     = "--config-file"
	configVariable = "ETCD_CONFIG_FILE"
)

// variablesIn returns the variables of etcd that set how many learners it takes at once, each as NAME=VALUE. VALUE is empty where
// the container reads it from elsewhere.
func variablesIn(env []corev1.EnvVar) []string {
	var kept []string
	for _, v := range env {
		if (v.Name == configVariable || slices.Contains(learnerVariables, v.Name)) && (v.Value != "" || v.ValueFrom != nil) {
			kept = append(kept, v.Name+"="+v.Value)
		}
	}
	return kept
}

// flagsIn returns what a command of etcd says of how many learners it takes at once, each as --FLAG=VALUE.
func flagsIn(command []string) []string {
	var kept []string
	for i, word := range command {
		flag, value, joined := strings.Cut(word, "=")
		if "-"+strings.TrimLeft(flag, "-") == flag {
			flag = "-" + flag // Go's programs take one hyphen, too
		}
		switch {
		case flag != configFlag && !slices.Contains(learnerFlags, flag):
		case joined:
			kept = append(kept, flag+"="+value)
		case i+1 < len(command):
			kept = append(kept, flag+"="+command[i+1])
		}
	}
	return kept
}

// MaxLearners is the largest number of learners that etcd takes at once by the commands and variables of its static pods; 0: they say
// nothing. One that cannot be read, as in a file on the machine, is larger than any.
func MaxLearners(pods []corev1.Pod) int {
	var said []string
	for _, p := range pods {
		for _, c := range p.Spec.Containers {
			if c.Name == "etcd" {
				said = append(said, flagsIn(c.Command)...)
				said = append(said, variablesIn(c.Env)...)
			}
		}
	}
	most := 0
	for _, flag := range said {
		_, value, _ := strings.Cut(flag, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			n = unreadable
		}
		most = max(most, n)
	}
	return most
}

// unreadable is the number of learners of a flag that cannot be read.
const unreadable = 1 << 30

// JoinsAsVoter reports whether kubeadm of a machine's version adds its member to etcd as a voter at once. A machine without a version has
// no kubeadm.
func JoinsAsVoter(m *clusterv1.Machine) bool {
	v, err := version.Parse(m.Spec.Version)
	return err == nil && !v.Learners()
}
