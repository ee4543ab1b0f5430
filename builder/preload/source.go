package preload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// source is an image as it arrived.
type source struct {
	img    v1.Image
	config []byte
	// manifest is nil where the source has none whose digest means anything: a
	// docker-archive's layers were recompressed or not compressed at all.
	manifest []byte
}

// open finds the image in what img.From names and checks what vouches for it.
func (m *maker) open(img Image) (*source, error) {
	fi, err := os.Stat(img.From)
	if err != nil {
		return nil, err
	}
	find := m.openArchive
	if fi.IsDir() {
		find = m.openLayout
	}
	src, err := find(img)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", img.From, err)
	}
	if src.config, err = src.img.RawConfigFile(); err != nil {
		return nil, fmt.Errorf("%s: configuration: %w", img.From, err)
	}
	if src.manifest != nil {
		want, err := src.img.Manifest()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", img.From, err)
		}
		if got := sum(src.config); got != want.Config.Digest {
			return nil, fmt.Errorf("%s: the configuration has digest %s, not %s: the layout is damaged, fetch it again", img.From, got, want.Config.Digest)
		}
	}
	cfg, err := v1.ParseConfigFile(bytes.NewReader(src.config))
	if err != nil {
		return nil, fmt.Errorf("%s: configuration: %w", img.From, err)
	}
	if err := m.fits(cfg.OS, cfg.Architecture); err != nil {
		return nil, fmt.Errorf("%s: %w", img.From, err)
	}
	return src, nil
}

func (m *maker) fits(os, arch string) error {
	if os != "linux" || arch != m.arch {
		return fmt.Errorf("the image is for %s/%s and the node for linux/%s; fetch it with --platform linux/%s", os, arch, m.arch, m.arch)
	}
	return nil
}

func (m *maker) openArchive(img Image) (*source, error) {
	opener := func() (io.ReadCloser, error) { return os.Open(img.From) }
	man, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, fmt.Errorf("no docker-archive (docker save): %w; an OCI archive must be unpacked into a directory first", err)
	}
	var tag *name.Tag
	if len(man) != 1 {
		if !slices.ContainsFunc(man, func(d tarball.Descriptor) bool { return slices.Contains(d.RepoTags, img.Name) }) {
			return nil, fmt.Errorf("holds %d images and none is named %s; save one image alone, or under that name", len(man), img.Name)
		}
		t, err := name.NewTag(img.Name)
		if err != nil {
			return nil, err
		}
		tag = &t
	}
	v, err := tarball.Image(opener, tag)
	return &source{img: v}, err
}

func (m *maker) openLayout(img Image) (*source, error) {
	index, err := layout.ImageIndexFromPath(img.From)
	if err != nil {
		return nil, fmt.Errorf("no OCI layout: %w", err)
	}
	all, others, err := m.collect(index, 0)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 { // several images in one layout are told apart by their names
		_, tag, _ := strings.Cut(img.Name[strings.LastIndexByte(img.Name, '/')+1:], ":")
		all = slices.DeleteFunc(all, func(c candidate) bool { return c.ref != img.Name && c.ref != tag })
	}
	switch {
	case len(all) == 1:
		return &source{img: all[0].img, manifest: all[0].manifest}, nil
	case len(all) > 1:
		return nil, fmt.Errorf("holds several images for linux/%s named %s; keep one", m.arch, img.Name)
	case len(others) > 0:
		return nil, fmt.Errorf("the node is linux/%s and the layout holds only %s; fetch it with --platform linux/%s", m.arch, strings.Join(others, ", "), m.arch)
	}
	return nil, fmt.Errorf("holds no image named %s for linux/%s", img.Name, m.arch)
}

// candidate is an image in a layout that is for the right architecture.
type candidate struct {
	img      v1.Image
	manifest []byte
	ref      string // annotation org.opencontainers.image.ref.name
}

// collect walks an index: the images that fit, and the platforms of the rest.
func (m *maker) collect(index v1.ImageIndex, depth int) (all []candidate, others []string, err error) {
	if depth > 4 {
		return nil, nil, errors.New("its indexes are nested more than four deep")
	}
	man, err := index.IndexManifest()
	if err != nil {
		return nil, nil, err
	}
	for _, d := range man.Manifests {
		ref := d.Annotations["org.opencontainers.image.ref.name"]
		switch {
		case d.MediaType.IsIndex():
			sub, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, nil, err
			}
			a, o, err := m.collect(sub, depth+1)
			if err != nil {
				return nil, nil, err
			}
			for i := range a {
				if a[i].ref == "" {
					a[i].ref = ref
				}
			}
			all, others = append(all, a...), append(others, o...)
		case !d.MediaType.IsImage():
		case d.Platform != nil && m.fits(d.Platform.OS, d.Platform.Architecture) != nil:
			others = append(others, d.Platform.String()) // attestations call themselves unknown/unknown
		default:
			img, err := index.Image(d.Digest)
			if err != nil {
				return nil, nil, err
			}
			b, err := img.RawManifest()
			if err != nil {
				return nil, nil, err
			}
			if got := sum(b); got != d.Digest {
				return nil, nil, fmt.Errorf("manifest %s has digest %s: the layout is damaged, fetch it again", d.Digest, got)
			}
			cfg, err := img.ConfigFile()
			if err != nil {
				return nil, nil, fmt.Errorf("configuration of %s: %w", d.Digest, err)
			}
			if m.fits(cfg.OS, cfg.Architecture) != nil {
				others = append(others, cfg.OS+"/"+cfg.Architecture)
				continue
			}
			all = append(all, candidate{img, b, ref})
		}
	}
	return all, others, nil
}
