package preload

import (
	"fmt"
	"io"
	"io/fs"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"garboard.local/builder/source/oci"
)

// Image is one container image that goes into the store. It comes either from
// Layers and Config, or from From.
type Image struct {
	Name   string  // fully qualified with tag: localhost/garboard/pause:1
	Config Config  //
	Layers []Layer // bottom first

	// From is an image of others, opened and for the store's architecture.
	From *oci.Image
}

// Config is what the runtime reads from an image's configuration (OCI image
// spec, config.md).
type Config struct {
	Entrypoint []string
	Cmd        []string
	Env        []string // NAME=value
	User       string   // user[:group], numeric where the image has no /etc/passwd
	WorkingDir string
	Labels     map[string]string
	StopSignal string
}

// Layer is a set of files. Directories that it does not list are made with
// mode 0755, owner 0:0.
type Layer struct{ Files []LayerFile }

// LayerFile is one path of a layer.
type LayerFile struct {
	Path     string      // in the container; a leading slash makes no difference
	Type     Type        // TypeFile where empty
	Mode     fs.FileMode // permission bits with fs.ModeSetuid, ModeSetgid and ModeSticky
	UID, GID int
	Link     string // a symlink's target
	Source   string // the file on the build host that holds the bytes
	SHA256   string // of those bytes, in hexadecimal; "" where the caller has no opinion
}

// Info says what an image became.
type Info struct {
	Name   string // as given
	ID     string // hexadecimal digest of the configuration: the image's ID for the runtime
	Digest string // digest of the manifest, "sha256:..."
	Size   int64  // bytes of the image's layers as uncompressed tar archives
	View   View
}

// Blobs keeps the files of layers that arrive as archives. *store.Store is one.
type Blobs interface {
	Put(r io.Reader) (sum string, size int64, err error)
	Blob(sum string) string // the path of a blob that was put
}

// maker builds the images of one store.
type maker struct {
	epoch time.Time // of everything that is created here; whole seconds, UTC
	arch  string    // GOARCH
	blobs Blobs
}

// picture is an image with its layers analysed: what the store records.
type picture struct {
	config, manifest []byte
	layers           []*layer
	created          time.Time
}

func (p *picture) id() string { return sum(p.config).Hex }

// load makes a picture of an image of either kind.
func (m *maker) load(img Image) (*picture, error) {
	switch {
	case img.From != nil && len(img.Layers) > 0:
		return nil, fmt.Errorf("it has both layers and an image %s to take them from: leave one of them out", img.From.Name)
	case img.From != nil:
		pic, err := m.develop(img.From)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", img.From.Name, err)
		}
		return pic, nil
	case len(img.Layers) == 0:
		return nil, fmt.Errorf("it has no layers and names no image to take them from")
	}
	var trees []tree
	for i, l := range img.Layers {
		t, err := l.tree()
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		if err := t.complete(trees...); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		trees = append(trees, t)
	}
	return m.compose(trees, v1.ConfigFile{Config: v1.Config{
		Entrypoint: img.Config.Entrypoint,
		Cmd:        img.Config.Cmd,
		Env:        img.Config.Env,
		User:       img.Config.User,
		WorkingDir: img.Config.WorkingDir,
		Labels:     img.Config.Labels,
		StopSignal: img.Config.StopSignal,
	}})
}

func (l Layer) tree() (tree, error) {
	t := newTree()
	for _, f := range l.Files {
		p, err := cleanPath(f.Path)
		if err != nil {
			return nil, err
		}
		if f.Type == "" {
			f.Type = TypeFile
		}
		if _, dup := t[p]; dup && (p != "" || f.Type != TypeDir) {
			return nil, fmt.Errorf("two files for %q", "/"+p)
		}
		if f.Mode != fileMode(tarMode(f.Mode)) {
			return nil, fmt.Errorf("file %q has mode %v: only permission bits, fs.ModeSetuid, ModeSetgid and ModeSticky are known", "/"+p, f.Mode)
		}
		e := Entry{Path: p, Type: f.Type, Mode: f.Mode, UID: f.UID, GID: f.GID}
		switch f.Type {
		case TypeFile:
			if e.ContentPath = f.Source; f.Source == "" {
				return nil, fmt.Errorf("file %q names no source to read", "/"+p)
			}
			if err := checkSum(f.Source, f.SHA256); err != nil {
				return nil, fmt.Errorf("file %q: %w", "/"+p, err)
			}
		case TypeSymlink:
			if e.Link, e.Mode = f.Link, 0o777; f.Link == "" {
				return nil, fmt.Errorf("symlink %q has no target", "/"+p)
			}
		case TypeDir:
		default:
			return nil, fmt.Errorf("file %q is of the unknown type %q", "/"+p, f.Type)
		}
		t[p] = e
	}
	return t, nil
}
