// Command garboard is containerd's daemon with the plugins of a Garboard node
// and without a command line library, whose templates keep every method of
// every type in the program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/containerd/containerd/v2/cmd/containerd/server"
	srvconfig "github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/log"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"google.golang.org/grpc/grpclog"
)

func main() {
	file := flag.String("config", filepath.Join(defaults.DefaultConfigDir, "config.toml"), "configuration file")
	tell := flag.Bool("version", false, "say which version this is")
	flag.Parse()
	if *tell {
		fmt.Println("containerd", version.Package, version.Version, version.Revision)
		return
	}
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "containerd: unexpected argument %q; it takes -config and -version\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := daemon(*file); err != nil {
		fmt.Fprintln(os.Stderr, "containerd:", err)
		os.Exit(1)
	}
}

// daemon serves until a signal ends it. Containers and their shims stay.
func daemon(file string) error {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	// A client that hangs up is no reason to end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	config, err := configuration(ctx, file)
	if err != nil {
		return err
	}
	if err := server.CreateTopLevelDirectories(config); err != nil {
		return err
	}
	if err := mount.SetTempMountLocation(filepath.Join(config.Root, "tmpmounts")); err != nil {
		return fmt.Errorf("place of temporary mounts: %w", err)
	}
	if left, err := mount.CleanupTempMounts(0); err != nil || len(left) > 0 {
		log.G(ctx).WithError(errors.Join(append(left, err)...)).Warn("temporary mounts of an earlier run")
	}

	// Making the server may wait (for the lock of the metadata, for one): a
	// signal ends that, too.
	made := make(chan error, 1)
	var s *server.Server
	go func() {
		var err error
		if s, err = server.New(ctx, config); err == nil {
			err = s.Start(ctx)
		}
		made <- err
	}()
	select {
	case err := <-made:
		if err != nil {
			return err
		}
	case <-stop:
		return nil
	}
	log.G(ctx).WithField("version", version.Version).Info("containerd serves")
	<-stop
	cancel()
	s.Stop()
	return nil
}

// configuration is the file's over the defaults. A node without the file runs
// with the defaults.
func configuration(ctx context.Context, file string) (*srvconfig.Config, error) {
	config := &srvconfig.Config{
		Version: version.ConfigVersion,
		Root:    defaults.DefaultRootDir,
		State:   defaults.DefaultStateDir,
		Imports: []string{defaults.DefaultConfigIncludePattern},
		Plugins: map[string]any{},
	}
	all := registry.Graph(func(*plugin.Registration) bool { return false })
	err := srvconfig.LoadConfigWithPlugins(ctx, file, func() iter.Seq[plugin.Registration] { return slices.Values(all) }, config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("configuration %s: %w", file, err)
	}
	if config.Debug.Level != "" {
		if err := log.SetLevel(config.Debug.Level); err != nil {
			return nil, fmt.Errorf("configuration %s: debug.level: %w", file, err)
		}
	}
	return config, nil
}
