// Package ocitest puts container images together for tests of what reads others'.
package ocitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
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

// Layer is an archive of headers; the content of a regular file is its Linkname, and
// the mode, where none is said, 0755.
func Layer(headers ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		body := ""
		if h.Typeflag == tar.TypeReg {
			body, h.Linkname = h.Linkname, ""
			h.Size = int64(len(body))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		must(w.WriteHeader(&h))
		_, err := io.WriteString(w, body)
		must(err)
	}
	must(w.Close())
	return b.Bytes()
}

// File is a regular file for Layer.
func File(path, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: path, Linkname: content}
}

// Dir is a directory for Layer.
func Dir(path string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: path} }

// Symlink is a symbolic link for Layer.
func Symlink(path, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: to}
}

// Hard is a hard link for Layer.
func Hard(path, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: path, Linkname: to}
}

// Image is an OCI image for an architecture whose layers are tars.
func Image(arch string, layers ...[]byte) v1.Image {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
	must(err)
	for _, l := range layers {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l)), nil }, tarball.WithMediaType(types.OCILayer))
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

// Named writes a layout of images into dir, each under a name, which is its
// annotation org.opencontainers.image.ref.name.
func Named(dir string, images map[string]v1.Image) error {
	p, err := layout.Write(dir, empty.Index)
	for _, ref := range slices.Sorted(maps.Keys(images)) {
		if err == nil {
			err = p.AppendImage(images[ref], layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref}))
		}
	}
	return err
}

// Saved writes images into a file as docker save does, each under a name.
func Saved(file string, images map[string]v1.Image) error {
	byTag := map[name.Tag]v1.Image{}
	for ref, img := range images {
		tag, err := name.NewTag(ref)
		if err != nil {
			return err
		}
		byTag[tag] = img
	}
	return tarball.MultiWriteToFile(file, byTag)
}

// Files are the files in a directory, by their paths in it.
func Files(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err == nil {
			files[rel], err = os.ReadFile(p)
		}
		return err
	})
	return files, err
}

// Untar is what is in an archive of plain files, by name.
func Untar(b []byte) (map[string][]byte, error) {
	files := map[string][]byte{}
	for t := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := t.Next()
		if err == io.EOF {
			return files, nil
		}
		if err == nil {
			files[h.Name], err = io.ReadAll(t)
		}
		if err != nil {
			return nil, err
		}
	}
}

// Replace puts other bytes in the place of the blob that is the first layer of an image
// in a layout.
func Replace(dir string, img v1.Image, blob []byte) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	h, err := layers[0].Digest()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "blobs", h.Algorithm, h.Hex), blob, 0o644)
}

// Gzip compresses.
func Gzip(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	must(err)
	must(w.Close())
	return z.Bytes()
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("ocitest: %v", err)) // nothing here can fail but for a bug
	}
}
