// Package release puts the artefacts of several images into one directory, with
// checksums, licences, a list of sources and a signature.
package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"garboard.local/builder/lock"
	"garboard.local/builder/report"
)

// Names of the files that a release has once; every other begins with its image's.
const (
	SourcesName   = "SOURCES"
	LicencesName  = "THIRD-PARTY-LICENCES"
	SignatureName = report.SumsName + ".asc"
)

// Image is what a build made for one architecture.
type Image struct {
	Recipe, Arch string
	Dir          string // where its artefacts are
	Artefacts    []report.Artefact
}

// Release is what goes into one directory.
type Release struct {
	Images   []Image
	Sources  []byte
	Licences []byte
	Key      *Key // nil: unsigned
	// Check looks at the whole before it gets its name; nil: nobody does.
	Check func(ctx context.Context, dir string) error
}

// Write writes the release whole or not at all and returns its files. The output
// may be missing, empty, or an earlier release. One process at a time may do it.
func (r Release) Write(ctx context.Context, output string) (files []report.Artefact, err error) {
	output, err = filepath.Abs(output)
	if err != nil {
		return nil, err
	}
	p := place(output)
	if err := p.prepare(); err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.fresh)) }()
	if files, err = r.fill(ctx, p.fresh); err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	if r.Check != nil {
		if err := r.Check(ctx, p.fresh); err != nil {
			return nil, fmt.Errorf("release: the finished files do not pass: %w", err)
		}
	}
	if err := p.swap(); err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	return files, nil
}

// fill writes the files of a release.
func (r Release) fill(ctx context.Context, dir string) ([]report.Artefact, error) {
	var files []report.Artefact
	for _, im := range r.Images {
		for _, a := range im.Artefacts {
			name := Name(im.Recipe, im.Arch, a.Name)
			if name == report.SumsName {
				continue
			}
			if i := slices.IndexFunc(files, func(f report.Artefact) bool { return f.Name == name }); i >= 0 {
				if name == lock.FileName && files[i].SHA256 == a.SHA256 {
					continue
				}
				return nil, fmt.Errorf("%s of %s for %s would be called %s, as another file of the release is, with other content", a.Name, im.Recipe, im.Arch, name)
			}
			f, err := add(ctx, dir, name, filepath.Join(im.Dir, a.Name), a.SHA256)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	for _, f := range []struct {
		name string
		body []byte
	}{{SourcesName, r.Sources}, {LicencesName, r.Licences}} {
		if err := write(filepath.Join(dir, f.name), f.body); err != nil {
			return nil, err
		}
		files = append(files, report.Artefact{Name: f.name, Size: int64(len(f.body)), SHA256: sum(f.body)})
	}
	sums := report.Sums(files)
	if err := write(filepath.Join(dir, report.SumsName), sums); err != nil {
		return nil, err
	}
	files = append(files, report.Artefact{Name: report.SumsName, Size: int64(len(sums)), SHA256: sum(sums)})
	if r.Key != nil {
		sig, err := r.Key.Sign(sums)
		if err != nil {
			return nil, err
		}
		if err := write(filepath.Join(dir, SignatureName), sig); err != nil {
			return nil, err
		}
		files = append(files, report.Artefact{Name: SignatureName, Size: int64(len(sig)), SHA256: sum(sig)})
	}
	slices.SortFunc(files, func(a, b report.Artefact) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// Name is what an artefact is called in a release.
func Name(recipe, arch, artefact string) string {
	if artefact == lock.FileName || artefact == report.SumsName {
		return artefact
	}
	rest, ok := strings.CutPrefix(artefact, recipe+".")
	if !ok {
		rest = artefact
	}
	name := recipe + "-" + arch + "." + rest
	if compressed(name) {
		name += ".zst"
	}
	return name
}

// compressed are disk images, of which nearly all is zeros.
func compressed(name string) bool {
	return strings.HasSuffix(name, ".raw") || strings.HasSuffix(name, ".raw.zst")
}

// add copies a file whose hash must be what its build said.
func add(ctx context.Context, dir, name, from, want string) (f report.Artefact, err error) {
	in, err := os.Open(from)
	if err != nil {
		return f, err
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	read, wrote := sha256.New(), sha256.New()
	count := &counter{w: io.MultiWriter(out, wrote)}
	src := io.TeeReader(&interruptible{ctx, in}, read)
	if compressed(name) {
		err = compress(count, src)
	} else {
		_, err = io.Copy(count, src)
	}
	if err = errors.Join(err, out.Chmod(0o644), out.Sync()); err != nil {
		return f, fmt.Errorf("%s: %w", name, err)
	}
	if got := hex.EncodeToString(read.Sum(nil)); got != want {
		return f, fmt.Errorf("%s has sha256 %s, its build said %s; something else writes there: build it anew", from, got, want)
	}
	return report.Artefact{Name: name, Size: count.n, SHA256: hex.EncodeToString(wrote.Sum(nil))}, nil
}

// compress gives the same bytes on any machine: one goroutine, whole blocks.
func compress(w io.Writer, r io.Reader) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if _, err := z.ReadFrom(r); err != nil {
		return errors.Join(err, z.Close())
	}
	return z.Close()
}

// write writes a small file whatever the umask is.
func write(path string, body []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	return errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// counter counts what passes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// interruptible ends a long copy when its context does.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}
