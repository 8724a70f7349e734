package main

import (
	"go/ast"
	"go/printer"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// ownConditions are the conditions that have a constant of Quorate's: type, kinds, meaning.
func ownConditions(root string) ([][3]string, error) {
	var all [][3]string
	for _, of := range []struct{ dir, on string }{
		{"api/controlplane/v1beta2", "KubeadmControlPlane, ControlPlane"}, {"api/infrastructure/v1alpha1", "LocalMachine"},
		{"api/bootstrap/v1alpha1", "EtcdadmConfig"}, {"api/upgrade/v1alpha1", "NodeUpgrade, ControlPlaneUpgrade, MachineDeploymentUpgrade"},
	} {
		files, err := parse(filepath.Join(root, of.dir))
		if err != nil {
			return nil, err
		}
		for _, c := range constants(files, nil) {
			if strings.HasSuffix(c.name, "Condition") || strings.HasPrefix(c.of, "Conditions of") {
				all = append(all, [3]string{c.value, of.on, strings.TrimPrefix(c.meaning(), c.name+" ")})
			}
		}
	}
	return all, nil
}

// upstreamConditions are the conditions with Cluster API's names, by who writes them.
func upstreamConditions(root string) ([][3]string, error) {
	known, err := upstreamConstants(root, "Condition")
	if err != nil {
		return nil, err
	}
	const groups = "KubeadmControlPlane, ControlPlane, EtcdCluster, and their Machines"
	on := map[string][]string{}
	for _, of := range []struct{ dir, on string }{
		{"group", groups}, {"group/observe", groups}, {"group/act", groups}, {"group/status", groups},
		{"kinds/stacked", "KubeadmControlPlane and its Machines"},
		{"kinds/machines", "ControlPlane and its Machines"}, {"kinds/etcdcluster", "EtcdCluster and its Machines"},
		{"local/provider", "LocalCluster, LocalMachine"}, {"kinds/etcdadm/provider", "EtcdadmConfig"},
	} {
		values, err := used(filepath.Join(root, "internal", of.dir), known)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			known := slices.Contains(on[v], of.on) || slices.Contains(on[v], groups) && strings.HasSuffix(of.on, "and its Machines")
			if !known {
				on[v] = append(on[v], of.on)
			}
		}
	}
	var all [][3]string
	for value, kinds := range on {
		all = append(all, [3]string{value, strings.Join(kinds, "; "), ""})
	}
	slices.SortFunc(all, func(a, b [3]string) int { return strings.Compare(a[0], b[0]) })
	return all, nil
}

// emitted are the places where events are made: the folder below internal, and the expression that gives the reason.
func emitted(root string) ([]string, error) {
	var all []string
	var dirs []string
	for _, level := range []string{"*", "core/*", "cluster/*", "kinds/*", "upgrade/*", "local/*"} {
		found, err := filepath.Glob(filepath.Join(root, "internal", level))
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if paths, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(paths) == 0 {
			continue // only folders below it have files
		}
		files, err := parse(dir)
		if err != nil {
			continue // tests only
		}
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && called(call) == "Eventf" && len(call.Args) > 4 {
					all = append(all, filepath.Base(dir)+" "+source(call.Args[3]))
				}
				return true
			})
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// source is an expression as it is written.
func source(e ast.Expr) string {
	var b strings.Builder
	if err := printer.Fprint(&b, token.NewFileSet(), e); err != nil {
		return ""
	}
	return b.String()
}
