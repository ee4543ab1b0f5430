package preload

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"garboard.local/builder/source/oci"
)

// Types that a container's root directory can hold beside those of a root image.
const (
	TypeFifo   Type = "fifo"
	TypeDevice Type = "device" // without its numbers: nobody here makes one
)

// Extra is what a file of a container has, of which one of a root image can have its
// capabilities alone (Entry.Capabilities, which is not set then).
type Extra struct {
	Modified time.Time
	Xattrs   map[string]string
}

// xattrRecord begins the name of an extended attribute among an archive's records.
const xattrRecord = "SCHILY.xattr."

// want is what is read of a layer, and how much at most. The zero value is what a
// root image can hold, without a limit.
type want struct {
	all  bool // fifos, devices, times and extended attributes too; every content is a blob
	left *left
}

// left is what of a limit is left over.
type left struct{ bytes, entries, limitBytes, limitEntries int64 }

func (w want) take(h *tar.Header) error {
	if w.left == nil {
		return nil
	}
	return w.left.take(h.Size)
}

func (l *left) take(size int64) error {
	if l.entries--; l.entries < 0 {
		return &LimitError{fmt.Sprintf("it holds more than %d files", l.limitEntries)}
	}
	if l.bytes -= size; size < 0 || l.bytes < 0 {
		return &LimitError{fmt.Sprintf("its files are of more than %d bytes", l.limitBytes)}
	}
	return nil
}

// LimitError says that an image unpacks to more than is allowed.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

func (w want) extra(h *tar.Header) *Extra {
	if !w.all {
		return nil
	}
	e := &Extra{Modified: h.ModTime}
	for k, v := range h.PAXRecords {
		if name, ok := strings.CutPrefix(k, xattrRecord); ok {
			if e.Xattrs == nil {
				e.Xattrs = map[string]string{}
			}
			e.Xattrs[name] = v
		}
	}
	return e
}

// ContentsOptions bound what Contents reads, and watch it.
type ContentsOptions struct {
	Blobs Blobs
	// Bytes and Entries are how many all layers may hold together; what a layer
	// has and a higher one hides counts too.
	Bytes, Entries int64
	// Read is told how many bytes of the layers, as they are transferred, were read.
	// nil means that nobody asks.
	Read func(int64)
}

// Contents is what a container sees of an image: its layers above each other, with
// whiteouts carried out. Entries are sorted, directories before what they hold; each
// lies below directories of the image, never below a symbolic link. Every file's bytes
// are in a blob of its own, which hard links share. What the layers hold is compared
// with the digests in the image's configuration.
func Contents(ctx context.Context, img v1.Image, o ContentsOptions) ([]Entry, error) {
	layers, diffIDs, err := oci.Layers(img)
	if err != nil {
		return nil, err
	}
	w := want{all: true, left: &left{bytes: o.Bytes, entries: o.Entries, limitBytes: o.Bytes, limitEntries: o.Entries}}
	stream := &left{bytes: o.Bytes + o.Entries*tarOverhead, entries: 1<<63 - 1, limitBytes: o.Bytes}
	var raws []*raw
	for i, l := range layers {
		r, err := contentsOf(ctx, l, o, w, stream, diffIDs[i])
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		raws = append(raws, r)
	}
	t, err := flatten(raws)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(t))
	for _, p := range t.paths() {
		e := t[p]
		e.Path = p
		out = append(out, e)
	}
	return out, nil
}

// tarOverhead is how many bytes an archive spends on a file beside its content, at most
// on average: three headers, the longest names, padding.
const tarOverhead = 8 << 10

func contentsOf(ctx context.Context, vl v1.Layer, o ContentsOptions, w want, stream *left, diffID v1.Hash) (*raw, error) {
	watched, err := watch(vl, o.Read)
	if err != nil {
		return nil, err
	}
	r, err := watched.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	l, files, err := analyse(&bounded{ctx, r, stream}, o.Blobs, w)
	if err != nil {
		return nil, err
	}
	return files, oci.Same("unpacked it", l.diffID, diffID)
}

// bounded ends a reader by the context, and by a limit.
type bounded struct {
	ctx  context.Context
	r    io.Reader
	left *left
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if lerr := b.left.take(int64(n)); lerr != nil {
		return n, lerr
	}
	return n, err
}

// watch is a layer whose transfer is counted.
func watch(l v1.Layer, read func(int64)) (v1.Layer, error) {
	if read == nil {
		return l, nil
	}
	return partial.CompressedToLayer(&watched{l, read})
}

// watched is no v1.Layer, so that what it is completed to unpacks what it transfers.
type watched struct {
	layer v1.Layer
	read  func(int64)
}

func (w *watched) Digest() (v1.Hash, error)            { return w.layer.Digest() }
func (w *watched) Size() (int64, error)                { return w.layer.Size() }
func (w *watched) MediaType() (types.MediaType, error) { return w.layer.MediaType() }
func (w *watched) Compressed() (io.ReadCloser, error) {
	r, err := w.layer.Compressed()
	if err != nil {
		return nil, err
	}
	return &counted{r, w.read}, nil
}

type counted struct {
	io.ReadCloser
	read func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read(int64(n))
	return n, err
}
