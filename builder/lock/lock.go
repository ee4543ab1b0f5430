package lock

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"garboard.local/builder/source/debian"
)

// FileName is the lock's name at the top of a repository.
const FileName = "garboard.lock"

// formatVersion is the version of the file's form that this program writes and reads.
const formatVersion = 1

const header = `# garboard.lock: every input of the build, pinned. Written by "garboard lock"; do not edit.
# Commit it: with the recipe it determines every byte of what is built.
`

// Lock is the content of garboard.lock.
type Lock struct {
	Version int    `yaml:"version"`
	Go      string `yaml:"go"` // toolchain that compiles the components, such as 1.26.8
	// Time of the last change: every time in the artefacts, and the earliest
	// that a node's clock shows.
	Time       time.Time                   `yaml:"time,omitempty"`
	Debian     Debian                      `yaml:"debian"`
	Tools      map[string][]debian.Package `yaml:"tools"`      // packages that the build runs, by the build host's architecture
	Components map[string]Component        `yaml:"components"` // by name below overlays/src
	// OCI are images in registries: the digest of each one's manifest, by the
	// reference that a recipe gives and the node's architecture.
	OCI map[string]map[string]string `yaml:"oci,omitempty"`
}

// Debian is what goes onto nodes.
type Debian struct {
	Suites   []string                    `yaml:"suites"`
	Packages map[string][]debian.Package `yaml:"packages"` // by the node's architecture
}

// Component is a Go program that is compiled from its module.
type Component struct {
	Module  string `yaml:"module"`
	Version string `yaml:"version"`
	Sum     string `yaml:"sum"`   // h1: hash of the module, as in its go.sum
	GoMod   string `yaml:"gomod"` // sha256 of overlays/src/<name>/go.mod, hexadecimal
	GoSum   string `yaml:"gosum"` // sha256 of overlays/src/<name>/go.sum, hexadecimal
}

// Read reads a lock file.
func Read(path string) (*Lock, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lock: %w; run `garboard lock` to write it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	l, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w; run `garboard lock` to write it anew", path, err)
	}
	return l, nil
}

// Parse reads the content of a lock file. Unknown fields, repeated packages and
// values of a wrong form are errors.
func Parse(b []byte) (*Lock, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	l := &Lock{}
	if err := d.Decode(l); err != nil {
		if err == io.EOF {
			err = errors.New("it is empty")
		}
		return nil, err
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return nil, errors.New("more than one YAML document")
	}
	if err := l.validate(); err != nil {
		return nil, err
	}
	l.sort()
	return l, nil
}

// Write writes the lock file, whole or not at all. The same lock gives the same bytes.
func (l *Lock) Write(path string) (err error) {
	b, err := l.Marshal()
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".garboard.lock-")
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return nil
}

// Marshal is the content of the lock file.
func (l *Lock) Marshal() ([]byte, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	l.sort()
	out := bytes.NewBufferString(header)
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(l), e.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (l *Lock) sort() {
	for _, m := range []map[string][]debian.Package{l.Debian.Packages, l.Tools} {
		for _, ps := range m {
			slices.SortFunc(ps, func(a, b debian.Package) int { return cmp.Compare(a.Name, b.Name) })
			for i := range ps {
				slices.Sort(ps[i].Depends)
			}
		}
	}
}

func (l *Lock) validate() error {
	if l.Version != formatVersion {
		return fmt.Errorf("version %d is not %d, the one this program knows", l.Version, formatVersion)
	}
	if !regexp.MustCompile(`^1\.\d+(\.\d+|rc\d+|beta\d+)?$`).MatchString(l.Go) {
		return fmt.Errorf("go: %q is not a version such as 1.26.8", l.Go)
	}
	for _, s := range l.Debian.Suites {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(s) {
			return fmt.Errorf("debian.suites: %q is malformed", s)
		}
	}
	if err := validatePackages("debian.packages", l.Debian.Packages); err != nil {
		return err
	}
	if err := validatePackages("tools", l.Tools); err != nil {
		return err
	}
	if err := validateOCI(l.OCI); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(l.Components)) {
		if err := l.Components[name].validate(); err != nil {
			return fmt.Errorf("components.%s: %w", name, err)
		}
	}
	return nil
}

func validatePackages(field string, m map[string][]debian.Package) error {
	for _, arch := range slices.Sorted(maps.Keys(m)) {
		if arch != "amd64" && arch != "arm64" {
			return fmt.Errorf("%s: architecture %q is neither amd64 nor arm64", field, arch)
		}
		seen := map[string]bool{}
		for i, p := range m[arch] {
			if err := p.Validate(); err != nil {
				return fmt.Errorf("%s.%s[%d]: %w", field, arch, i, err)
			}
			if p.Architecture != arch && p.Architecture != "all" {
				return fmt.Errorf("%s.%s[%d]: package %s is for %s", field, arch, i, p.Name, p.Architecture)
			}
			if seen[p.Name] {
				return fmt.Errorf("%s.%s[%d]: package %s comes twice", field, arch, i, p.Name)
			}
			seen[p.Name] = true
		}
	}
	return nil
}

func (c Component) validate() error {
	if c.Module == "" || strings.ContainsAny(c.Module, " \t\n") || !strings.HasPrefix(c.Version, "v") {
		return fmt.Errorf("module %q version %q is malformed", c.Module, c.Version)
	}
	if !strings.HasPrefix(c.Sum, "h1:") {
		return fmt.Errorf("sum %q does not begin with h1:", c.Sum)
	}
	for _, s := range []string{c.GoMod, c.GoSum} {
		if b, err := hex.DecodeString(s); err != nil || len(b) != 32 {
			return fmt.Errorf("%q is not a sha256 of 64 hexadecimal digits", s)
		}
	}
	return nil
}
