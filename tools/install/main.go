// Command install writes what clusterctl installs Quorate from: a folder for each provider, laid out as clusterctl's local repository is,
// and the files of which are those of a release.
//
// It knows kustomize and the folders of config/. What is installed is in config/ alone.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "Folder of Quorate's sources.")
	flag.StringVar(&o.out, "out", "", "Folder to write to. What is there of the same version is replaced.")
	flag.StringVar(&o.version, "version", "", "Version of the release, such as v0.1.0. Defaults to the one that config/manager names.")
	flag.StringVar(&o.image, "image", "",
		"Image of the manager without tag, which is the version. Defaults to the one that config/manager names.")
	flag.StringVar(&o.upgraders, "upgrader-images", "",
		"File with the ConfigMap of the upgrader images, as a release has it: upgrader-images.yaml. Empty: the components bring no upgrader "+
			"images.")
	flag.Parse()
	if err := o.write(); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}
