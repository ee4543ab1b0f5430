// Package ocitest puts container images together for tests of what reads others'.
package ocitest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Tar is an archive of plain files, by name.
func Tar(files map[string][]byte) []byte { return archive(files, 0o644) }

// Programs is an archive of files that can be executed, by name.
func Programs(files map[string][]byte) []byte { return archive(files, 0o755) }

func archive(files map[string][]byte, mode int64) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(files[name]))}))
		_, err := w.Write(files[name])
		must(err)
	}
	must(w.Close())
	return b.Bytes()
}

// Image is an image for an architecture whose layers are tars.
func Image(arch string, layers ...[]byte) v1.Image {
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
	must(err)
	for _, l := range layers {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l)), nil })
		must(err)
		img, err = mutate.AppendLayers(img, layer)
		must(err)
	}
	return img
}

// Index is an index of images, each under its platform.
func Index(images ...v1.Image) v1.ImageIndex {
	index := v1.ImageIndex(empty.Index)
	for _, img := range images {
		c, err := img.ConfigFile()
		must(err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: c.OS, Architecture: c.Architecture}}})
	}
	return index
}

// Layout writes a layout of one index into dir, as tools that copy an image for
// several architectures do.
func Layout(dir string, index v1.ImageIndex) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return p.AppendIndex(index)
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("ocitest: %v", err)) // nothing here can fail but for a bug
	}
}
