// Package plugin registers the preloaded images with containerd.
package plugin

import (
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/garboard/preloaded"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/log"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
)

// Config is what the plugin's section of the configuration may say.
type Config struct {
	Roots       []string `toml:"roots"`       // the stores; the first that has a name decides what it means
	Snapshotter string   `toml:"snapshotter"` // the one that the CRI plugin uses
	Namespace   string   `toml:"namespace"`   // the CRI plugin's
}

func init() {
	registry.Register(&plugin.Registration{
		// Of the services' type: the CRI plugin, which looks for images when it
		// starts, comes after all of them.
		Type:     plugins.ServicePlugin,
		ID:       "garboard-preloaded",
		Requires: []plugin.Type{plugins.MetadataPlugin},
		Config:   &Config{Roots: []string{"/usr/lib/garboard/images", "/var/lib/garboard/images"}, Snapshotter: "overlayfs", Namespace: "k8s.io"},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			config := ic.Config.(*Config)
			m, err := ic.GetSingle(plugins.MetadataPlugin)
			if err != nil {
				return nil, err
			}
			db := m.(*metadata.DB)
			s := &preloaded.Seeder{
				Images: metadata.NewImageStore(db), Content: db.ContentStore(), Leases: metadata.NewLeaseManager(db),
				Snapshots: db.Snapshotter(config.Snapshotter), Snapshotter: config.Snapshotter,
			}
			if s.Snapshots == nil {
				return nil, fmt.Errorf("preloaded images: no snapshotter is called %q", config.Snapshotter)
			}
			// A node without its preloaded images is in trouble, one without a
			// runtime in more.
			list, err := preloaded.ReadAll(config.Roots)
			err = errors.Join(err, s.Seed(namespaces.WithNamespace(ic.Context, config.Namespace), list))
			if err != nil {
				log.G(ic.Context).WithError(err).Error("preloaded images")
			}
			log.G(ic.Context).Infof("%d preloaded images in %v", len(list), config.Roots)
			return s, nil
		},
	})
}
