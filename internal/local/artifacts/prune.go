package artifacts

import (
	"context"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// Pruned is a product, or an interrupted download of a bundle, that Prune removed.
type Pruned = cache.Removed

// AddUser notes in the cache that the environment of a state folder takes artifacts from there.
func AddUser(o Options, state string) error {
	c, err := o.openCache()
	if err != nil {
		return err
	}
	return c.AddUser(state)
}

// Users returns the state folders of the environments that take artifacts from the cache.
func Users(o Options) ([]string, error) {
	c, err := o.openCache()
	if err != nil {
		return nil, err
	}
	return c.Users()
}

// Prune removes from the cache what no version of Versions is made of any more and none of the used sets has; prebuilt
// artifacts are never touched. So does it with interrupted downloads of bundles. A dry run only tells what would go. The error comes with
// what was removed before it.
func Prune(ctx context.Context, o Options, used []Set, dryRun bool) ([]Pruned, error) {
	c, err := o.openCache()
	if err != nil {
		return nil, err
	}
	wanted, err := providers(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, version := range Versions() {
		m, err := newMaker(ctx, c, version)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, m.products()...)
		wanted = append(wanted, m.store(nil), m.etcdMachine())
		wanted = append(wanted, m.etcdLeaves()...)
	}
	var paths []string
	for _, set := range used {
		paths = append(paths, set.Management, set.Machine, set.CNI, set.Store, set.CRDs, set.Etcd)
		paths = append(paths, set.Images...)
	}
	pruned, err := c.Prune(wanted, paths, dryRun)
	if err != nil {
		return pruned, err
	}
	root, err := o.CacheFolder()
	if err != nil {
		return pruned, err
	}
	downloads, err := dropDownloads(root, dryRun)
	return append(pruned, downloads...), err
}

// openCache opens the cache itself, even where prebuilt artifacts are used instead of it.
func (o Options) openCache() (*cache.Cache, error) {
	root, err := o.CacheFolder()
	if err != nil {
		return nil, err
	}
	return cache.Open(root, "", o.Progress)
}
