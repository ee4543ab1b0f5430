// Package report says what a build made: the manifest of every file in the
// image with its origin and reason, and the checksums of the artefacts.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"garboard.local/builder/rootfs"
)

// Artefact is one file that a build wrote.
type Artefact struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Manifest lists every file of an image.
type Manifest struct {
	Recipe      string           `json:"recipe"`
	Arch        string           `json:"arch"`
	Compression string           `json:"compression"`
	Kernel      string           `json:"kernel"` // uname -r
	Cmdline     string           `json:"cmdline"`
	Time        time.Time        `json:"time"`                  // of everything in the artefacts: the lock's
	Packages    []Package        `json:"packages"`              // Debian packages of which something is in it, by name
	Programs    []Program        `json:"programs"`              // programs that were compiled for it, by name
	KernelImage *KernelImage     `json:"kernelImage,omitempty"` // where the kernel is from, if not a Debian package
	Images      []ContainerImage `json:"images,omitempty"`      // container images of others, by name
	Root        []*rootfs.Entry  `json:"root"`                  // the root image, mounted at /
	Early       []*rootfs.Entry  `json:"early"`                 // the initramfs beside the root image
}

// ManifestName and SumsName are the names under which these files lie beside the artefacts.
const (
	ManifestName = "manifest.json"
	SumsName     = "SHA256SUMS"
)

// JSON is the manifest as a file.
func (m *Manifest) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	return append(b, '\n'), err
}

// ReadManifest reads the manifest in an output directory.
func ReadManifest(dir string) (*Manifest, error) {
	return ReadManifestFile(filepath.Join(dir, ManifestName))
}

// ReadManifestFile reads a manifest by its own name, which in a release is another.
func ReadManifestFile(file string) (*Manifest, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w; `garboard build` writes it", err)
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &m, nil
}

// Sums is a SHA256SUMS file (sha256sum(1) -c reads it).
func Sums(a []Artefact) []byte {
	var lines []string
	for _, x := range a {
		lines = append(lines, x.SHA256+"  "+x.Name+"\n")
	}
	sort.Strings(lines)
	return []byte(strings.Join(lines, ""))
}

// Origins adds up the bytes of an image by where they come from, largest first.
func (m *Manifest) Origins() []Origin {
	by := map[string]*Origin{}
	for _, e := range m.Root {
		o := by[e.Origin]
		if o == nil {
			o = &Origin{Name: e.Origin}
			by[e.Origin] = o
		}
		if e.Kind == rootfs.File {
			o.Files++
			o.Bytes += e.Size
		}
	}
	var out []Origin
	for _, o := range by {
		if o.Files > 0 {
			out = append(out, *o)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Bytes > out[j].Bytes || out[i].Bytes == out[j].Bytes && out[i].Name < out[j].Name
	})
	return out
}

// Origin is one source of files and how much it gives, before compression.
type Origin struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// ReadSums reads the SHA256SUMS of an output directory; sizes are those of the
// files that are there, -1 where one is not.
func ReadSums(dir string) ([]Artefact, error) {
	file := filepath.Join(dir, SumsName)
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w; `garboard build` writes it", err)
	}
	var out []Artefact
	for i, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		sum, name, ok := strings.Cut(line, "  ")
		if !ok || len(sum) != 64 || name == "" || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s:%d: not a line of sha256sum(1): %q", file, i+1, line)
		}
		a := Artefact{Name: name, SHA256: sum, Size: -1}
		if fi, err := os.Stat(filepath.Join(dir, name)); err == nil {
			a.Size = fi.Size()
		}
		out = append(out, a)
	}
	return out, nil
}
