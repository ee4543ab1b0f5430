package chaos

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"garboard.local/qemu/chaos/content"
)

// Media types of the OCI image specification.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// buildImage makes image i: a layer that all share, with the program, and some
// of its own with files of awkward sizes and one of megabytes.
func buildImage(seed uint64, i int, arch string, payload []byte) (v1.Image, []content.File, error) {
	shared := layerOf{random: source(seed, -1)}
	shared.file("payload", 0o755, payload)
	shared.file("data/shared", 0o644, shared.bytes(300<<10))
	own := source(seed, i)
	layers := []layerOf{shared}
	for n := range 2 + own.IntN(3) {
		l := layerOf{random: own}
		for _, size := range []int{0, 1, 4095, 4096, 4097, own.IntN(64 << 10), own.IntN(64 << 10)} {
			l.file(fmt.Sprintf("data/%d/%d-%d", n, len(l.files), size), 0o644, l.bytes(size))
		}
		l.link(fmt.Sprintf("data/%d/link", n), fmt.Sprintf("0-%d", i))
		l.file(fmt.Sprintf("data/%d/large", n), 0o640, l.bytes(100<<10+own.IntN(1<<20)))
		layers = append(layers, l)
	}
	img := mutate.MediaType(empty.Image, manifestType)
	img = mutate.ConfigMediaType(img, configType)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: arch, Config: v1.Config{Entrypoint: []string{"/payload"}}})
	if err != nil {
		return nil, nil, err
	}
	var files []content.File
	for _, l := range layers {
		b, err := l.tar()
		if err != nil {
			return nil, nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil },
			tarball.WithMediaType(layerType))
		if err == nil {
			img, err = mutate.AppendLayers(img, layer)
		}
		if err != nil {
			return nil, nil, err
		}
		files = append(files, l.described()...)
	}
	return img, files, nil
}

func source(seed uint64, i int) *rand.Rand {
	return rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "chaos image %d %d", seed, i))))
}

// layerOf is a layer in the making.
type layerOf struct {
	random *rand.Rand
	files  []layerFile
}

type layerFile struct {
	path, target string
	mode         int64
	data         []byte
}

func (l *layerOf) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(l.random.Uint32())
	}
	return b
}

func (l *layerOf) file(path string, mode int64, data []byte) {
	l.files = append(l.files, layerFile{path: path, mode: mode, data: data})
}

func (l *layerOf) link(path, target string) {
	l.files = append(l.files, layerFile{path: path, target: target, mode: 0o777})
}

func (l *layerOf) tar() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var errs []error
	for _, f := range l.files {
		h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg, ModTime: time.Unix(1, 0)}
		if f.target != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.target
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(f.data)
		}
		errs = append(errs, err)
	}
	return b.Bytes(), errors.Join(append(errs, w.Close())...)
}

func (l *layerOf) described() (out []content.File) {
	for _, f := range l.files {
		if f.target != "" {
			out = append(out, content.Link(f.path, f.target))
		} else {
			out = append(out, content.Of(f.path, f.mode, f.data))
		}
	}
	return out
}
