package preload

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/vbatts/tar-split/tar/asm"
	"github.com/vbatts/tar-split/tar/storage"
)

// layer is one layer as the store records it.
type layer struct {
	id, parent  string
	diffID      v1.Hash // of the uncompressed tar
	diffSize    int64   // bytes of it
	blob        v1.Hash // of the tar as the manifest names it, compressed or not
	blobSize    int64
	compression int // go.podman.io/storage/pkg/archive.Compression
	uids, gids  []uint32
	tree        tree
	tarSplit    []byte
}

// identify gives a layer its ID, as go.podman.io/image does: the layer's
// DiffID on the bottom, else a hash that chains it to its parent. Then a pull
// of the same layer finds it in the store.
func (l *layer) identify(parent string) {
	l.parent, l.id = parent, l.diffID.Hex
	if parent != "" {
		l.id = sum([]byte(parent + "+" + l.diffID.Hex)).Hex
	}
}

// analyse reads an uncompressed layer to its end: its files and its digest.
func analyse(r io.Reader, blobs Blobs, w want) (*layer, *raw, error) {
	hash, size := sha256.New(), new(counter)
	in := io.TeeReader(r, io.MultiWriter(hash, size))
	files, err := readTar(in, blobs, w)
	if err != nil {
		return nil, nil, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // the padding behind the archive belongs to its digest
		return nil, nil, err
	}
	l := &layer{
		diffID:   v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(hash.Sum(nil))},
		diffSize: int64(*size),
		uids:     files.uids.sorted(),
		gids:     files.gids.sorted(),
		tree:     files.tree,
	}
	l.blob, l.blobSize = l.diffID, l.diffSize
	return l, files, nil
}

// split records what it takes to reproduce a layer's tar from its files:
// headers and padding to the bit, and a checksum of each file.
func (l *layer) split(open func() (io.ReadCloser, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	in, err := asm.NewInputTarStream(r, storage.NewJSONPacker(zip), nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		if c, ok := in.(io.Closer); ok {
			c.Close() // or tar-split's goroutine waits for a reader for ever
		}
		return fmt.Errorf("its tar archive cannot be taken apart: %w", err)
	}
	if err := zip.Close(); err != nil {
		return err
	}
	l.tarSplit = out.Bytes()
	return l.reproduce()
}

// reproduce checks that the layer's tar comes out of its tree again, as the
// runtime makes it when an image is exported or checked.
func (l *layer) reproduce() error {
	unzip, err := gzip.NewReader(bytes.NewReader(l.tarSplit))
	if err != nil {
		return err
	}
	hash := sha256.New()
	if err := asm.WriteOutputTarStream(getter(l.tree), storage.NewJSONUnpacker(unzip), hash); err != nil {
		return fmt.Errorf("its tar cannot be reproduced from its files: %w", err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != l.diffID.Hex {
		return fmt.Errorf("its tar comes out with sha256 %s, not %s: did a file change while the build ran?", got, l.diffID.Hex)
	}
	return nil
}

type getter tree

func (g getter) Get(name string) (io.ReadCloser, error) {
	p, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	return g[p].Open()
}

// treeLayer is a tree as an uncompressed layer of an OCI image. It is not
// compressed so that its digest does not hang on a compressor's version.
type treeLayer struct {
	tree  tree
	epoch time.Time
	diff  v1.Hash
	size  int64
}

func newTreeLayer(t tree, epoch time.Time) (*treeLayer, error) {
	l := &treeLayer{tree: t, epoch: epoch}
	hash, size := sha256.New(), new(counter)
	if err := l.write(io.MultiWriter(hash, size)); err != nil {
		return nil, err
	}
	l.diff, l.size = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(hash.Sum(nil))}, int64(*size)
	return l, nil
}

func (l *treeLayer) Digest() (v1.Hash, error)            { return l.diff, nil }
func (l *treeLayer) DiffID() (v1.Hash, error)            { return l.diff, nil }
func (l *treeLayer) Size() (int64, error)                { return l.size, nil }
func (l *treeLayer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }
func (l *treeLayer) Compressed() (io.ReadCloser, error)  { return l.Uncompressed() }
func (l *treeLayer) Uncompressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(l.write(w)) }()
	return r, nil
}

func (l *treeLayer) write(w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, p := range l.tree.paths() {
		if err := l.writeEntry(tw, l.tree[p]); err != nil {
			return fmt.Errorf("/%s: %w", p, err)
		}
	}
	return tw.Close()
}

func (l *treeLayer) writeEntry(tw *tar.Writer, e Entry) error {
	h := &tar.Header{Name: e.Path, Mode: tarMode(e.Mode), Uid: e.UID, Gid: e.GID, ModTime: l.epoch, PAXRecords: e.paxRecords()}
	switch e.Type {
	case TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
		if e.Path == "" {
			h.Name = "./"
		}
		return tw.WriteHeader(h)
	case TypeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
		return tw.WriteHeader(h)
	}
	h.Typeflag, h.Size = tar.TypeReg, int64(len(e.Content))
	if e.ContentPath != "" {
		fi, err := os.Stat(e.ContentPath)
		if err != nil {
			return err
		}
		if !fi.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", e.ContentPath)
		}
		h.Size = fi.Size()
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	r, err := e.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(tw, r)
	return errors.Join(err, r.Close())
}

// checkSum hashes a file and compares, unless want is "".
func checkSum(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); want != "" && got != want {
		return fmt.Errorf("%s has sha256 %s, not %s", path, got, want)
	}
	return nil
}

func sum(b []byte) v1.Hash {
	h := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h[:])}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

type idset map[uint32]bool

func (s idset) sorted() []uint32 {
	out := make([]uint32, 0, len(s))
	for id := range s {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
