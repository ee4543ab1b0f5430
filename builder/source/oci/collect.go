package oci

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Annotations by which images in one layout are told apart: the first by the OCI image
// spec (annotations.md), a name or only its tag; the second, always a full name, by
// containerd and docker save.
const (
	refName  = "org.opencontainers.image.ref.name"
	fullName = "io.containerd.image.name"
)

// maxDepth bounds the nesting of indexes.
const maxDepth = 4

// collector walks an index.
type collector struct {
	arch   string
	found  []candidate
	others []string
}

// collect looks at everything in an index that has the names, and gives it these names.
func (c *collector) collect(index v1.ImageIndex, names, refs []string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("its indexes are nested more than %d deep", maxDepth)
	}
	man, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("its index: %w", err)
	}
	for n, d := range man.Manifests {
		if d.Digest == (v1.Hash{}) {
			return fmt.Errorf("its index: entry %d has no digest", n)
		}
		names, refs := with(names, d.Annotations[fullName]), with(refs, d.Annotations[refName])
		switch p := d.Platform; {
		case d.MediaType.IsIndex():
			sub, err := subIndex(index, d.Digest)
			if err == nil {
				err = c.collect(sub, names, refs, depth+1)
			}
			if err != nil {
				return err
			}
		case !d.MediaType.IsImage():
		case p != nil && p.OS == "unknown": // an attestation
		case p != nil && (p.OS != "linux" || p.Architecture != c.arch):
			c.others = append(c.others, p.String())
		default:
			img, err := index.Image(d.Digest)
			if err != nil {
				return err
			}
			if err := c.take(candidate{img: img, names: names, refs: refs}, d.Digest); err != nil {
				return err
			}
		}
	}
	return nil
}

func subIndex(index v1.ImageIndex, digest v1.Hash) (v1.ImageIndex, error) {
	sub, err := index.ImageIndex(digest)
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", digest, err)
	}
	b, err := sub.RawManifest()
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", digest, err)
	}
	return sub, Same("its index", sum(b), digest)
}

// take looks at an image that may be for the architecture.
func (c *collector) take(i candidate, digest v1.Hash) (err error) {
	if man, err := i.img.Manifest(); err == nil && man.Config.MediaType != "" && !man.Config.MediaType.IsConfig() {
		return nil // a signature, a chart: no container image
	}
	if i.manifest, i.config, err = vouched(i.img, digest); err != nil {
		return err
	}
	i.sum = digest.String()
	return c.sort(i)
}

// sort puts an image among those for the architecture or the others.
func (c *collector) sort(i candidate) error {
	err := fits(i.config, c.arch)
	if other := new(otherArch); errors.As(err, &other) {
		c.others = append(c.others, other.has...)
		return nil
	}
	if err == nil {
		c.found = append(c.found, i)
	}
	return err
}

// with is a list with one more, and never the same list.
func with(list []string, more string) []string {
	if list = slices.Clone(list); more != "" {
		list = append(list, more)
	}
	return list
}

// fits checks that a configuration is for the architecture.
func fits(config []byte, arch string) error {
	c, err := v1.ParseConfigFile(bytes.NewReader(config))
	if err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	if c.OS != "linux" || c.Architecture != arch {
		return &otherArch{arch, []string{c.OS + "/" + c.Architecture}}
	}
	return nil
}
