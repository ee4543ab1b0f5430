package preloaded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Label marks what was made here. Of an image its value is the digest of the
// manifest that it was made with, so that one replaced by a pull can be told.
const Label = "garboard.local/preloaded"

// Seeder writes images of the root image into containerd's metadata.
type Seeder struct {
	Images      images.Store
	Content     content.Store
	Leases      leases.Manager
	Snapshots   snapshots.Snapshotter
	Snapshotter string // its name
}

// Seed makes the images known, in the namespace of ctx. What is there already is
// left alone; images made by an earlier root image, and no longer in this one,
// are forgotten. An image that cannot be made known does not keep the others
// from it.
func (s *Seeder) Seed(ctx context.Context, list []Image) error {
	// Until an image's record is written nothing else keeps its parts.
	lease, err := s.Leases.Create(ctx, leases.WithRandomID(), leases.WithExpiration(time.Hour))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	leased := leases.WithLease(ctx, lease.ID)
	errs := []error{s.forget(ctx, list)}
	for _, img := range list {
		if err := s.image(leased, img); err != nil {
			errs = append(errs, fmt.Errorf("preloaded image %s: %w", strings.Join(img.Names, ", "), err))
		}
	}
	return errors.Join(append(errs, s.Leases.Delete(ctx, lease))...)
}

func (s *Seeder) image(ctx context.Context, img Image) error {
	parent := ""
	for _, l := range img.Layers {
		if err := s.layer(ctx, l, parent); err != nil {
			return fmt.Errorf("layer %s: %w", l.ChainID, err)
		}
		parent = l.ChainID.String()
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(img.Manifest, &manifest); err != nil {
		return err
	}
	// The garbage collector follows these from the image's record to its snapshot.
	if err := s.blob(ctx, manifest.Config, img.Config, "containerd.io/gc.ref.snapshot."+s.Snapshotter, parent); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := s.blob(ctx, img.Target, img.Manifest, "containerd.io/gc.ref.content.config", manifest.Config.Digest.String()); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	names, err := records(img, manifest.Config.Digest)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.record(ctx, name, img.Target); err != nil {
			return fmt.Errorf("record %s: %w", name, err)
		}
	}
	return nil
}

// records are the names under which the CRI plugin keeps an image that it has
// pulled: the tags, the same with the manifest's digest, and the image's ID.
func records(img Image, id digest.Digest) ([]string, error) {
	out := []string{id.String()}
	for _, n := range img.Names {
		ref, err := reference.ParseNamed(n)
		if err != nil {
			return nil, fmt.Errorf("name %q: %w", n, err)
		}
		byDigest, err := reference.WithDigest(reference.TrimNamed(ref), img.Target.Digest)
		if err != nil {
			return nil, fmt.Errorf("name %q: %w", n, err)
		}
		out = append(out, n, byDigest.String())
	}
	return out, nil
}

// layer commits a snapshot whose files are the layer's directory in the root
// image. The overlay snapshotter keeps the files of a snapshot in a directory
// that it only ever names: as a lower directory or as the source of a bind
// mount. Both follow a symbolic link, and its removal does not.
func (s *Seeder) layer(ctx context.Context, l Layer, parent string) error {
	name := l.ChainID.String()
	if _, err := s.Snapshots.Stat(ctx, name); err == nil {
		return nil
	} else if !errdefs.IsNotFound(err) {
		return err
	}
	if fi, err := os.Stat(l.Dir); err != nil {
		return err
	} else if !fi.IsDir() {
		return fmt.Errorf("%s is not a directory", l.Dir)
	}
	key := "garboard-preloaded-" + name
	if err := s.Snapshots.Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("left over by an earlier run: %w", err)
	}
	mark := snapshots.WithLabels(map[string]string{Label: l.Dir})
	mounts, err := s.Snapshots.Prepare(ctx, key, parent, mark)
	if err != nil {
		return err
	}
	dir := ""
	for _, m := range mounts {
		if m.Type == "bind" {
			dir = m.Source
		}
		for _, o := range m.Options {
			if d, ok := strings.CutPrefix(o, "upperdir="); ok {
				dir = d
			}
		}
	}
	if dir == "" {
		return fmt.Errorf("the snapshotter's mounts %v have no directory for files", mounts)
	}
	if err := os.Remove(dir); err != nil {
		return err
	}
	if err := os.Symlink(l.Dir, dir); err != nil {
		return err
	}
	return s.Snapshots.Commit(ctx, name, key, mark)
}

func (s *Seeder) blob(ctx context.Context, desc ocispec.Descriptor, data []byte, label, value string) error {
	labels := map[string]string{label: value}
	err := content.WriteBlob(ctx, s.Content, "garboard-preloaded-"+desc.Digest.String(), bytes.NewReader(data), desc, content.WithLabels(labels))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return err
	}
	// A pull may have brought it without the label.
	_, err = s.Content.Update(ctx, content.Info{Digest: desc.Digest, Labels: labels}, "labels."+label)
	return err
}

// record writes an image's record, unless a pull has replaced it. The CRI plugin
// takes it for one of its own, and the kubelet's garbage collection passes over
// what is pinned.
func (s *Seeder) record(ctx context.Context, name string, target ocispec.Descriptor) error {
	img := images.Image{Name: name, Target: target, Labels: map[string]string{
		Label:                     target.Digest.String(),
		"io.cri-containerd.image": "managed", "io.cri-containerd.pinned": "pinned",
	}}
	was, err := s.Images.Get(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		_, err = s.Images.Create(ctx, img)
		return err
	case err != nil:
		return err
	case was.Target.Digest == target.Digest && maps.Equal(was.Labels, img.Labels):
		return nil
	case was.Target.Digest != target.Digest && !ours(was):
		return nil
	}
	_, err = s.Images.Update(ctx, img)
	return err
}

// ours says whether a record is as an earlier start has written it.
func ours(img images.Image) bool { return img.Labels[Label] == img.Target.Digest.String() }

// forget removes the records of images that an earlier root image has brought
// and this one has not, and of every image that stands on a layer which went
// with it: an image that is absent can be pulled, one without files only fails.
func (s *Seeder) forget(ctx context.Context, list []Image) error {
	var gone []string // snapshots without files
	if err := s.Snapshots.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		dir, made := info.Labels[Label]
		if made && info.Kind == snapshots.KindCommitted {
			if _, err := os.Stat(dir); err != nil {
				gone = append(gone, info.Name)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, img := range list {
		keep[img.Target.Digest.String()] = true
	}
	all, err := s.Images.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, img := range all {
		if !(ours(img) && !keep[img.Target.Digest.String()]) && !s.standsOn(ctx, img, gone) {
			continue
		}
		if err := s.Images.Delete(ctx, img.Name); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("forget image %s: %w", img.Name, err))
		}
	}
	// Those that a container of the last boot stands on go with it.
	for range gone {
		for _, name := range gone {
			_ = s.Snapshots.Remove(ctx, name)
		}
	}
	return errors.Join(errs...)
}

func (s *Seeder) standsOn(ctx context.Context, img images.Image, gone []string) bool {
	if len(gone) == 0 {
		return false
	}
	diffs, err := img.RootFS(ctx, s.Content, anyPlatform{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(identity.ChainIDs(slices.Clone(diffs)), func(d digest.Digest) bool {
		return slices.Contains(gone, d.String())
	})
}

// anyPlatform takes every image: a node pulls those of its own architecture.
type anyPlatform struct{}

func (anyPlatform) Match(ocispec.Platform) bool     { return true }
func (anyPlatform) Less(_, _ ocispec.Platform) bool { return false }
