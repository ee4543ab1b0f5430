package debian

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"pault.ag/go/debian/version"
)

// Package is one binary package, pinned: what garboard.lock holds.
type Package struct {
	Name          string   `yaml:"name"`
	Version       string   `yaml:"version"`
	Architecture  string   `yaml:"architecture"` // amd64, arm64 or all
	SHA256        string   `yaml:"sha256"`       // of the .deb, hexadecimal
	Size          int64    `yaml:"size"`         // of the .deb, bytes
	File          string   `yaml:"file"`         // path below the mirror: pool/...
	Archive       string   `yaml:"archive"`      // BaseArchive or SecurityArchive
	Source        string   `yaml:"source"`       // name of the source package
	SourceVersion string   `yaml:"sourceVersion"`
	Depends       []string `yaml:"depends,flow,omitempty"` // names of packages, sorted: Depends and Pre-Depends, resolved
}

// Validate checks that the fields have the form that Debian Policy gives them
// and that none of them can lead out of the mirror or the cache.
func (p Package) Validate() error {
	if !validName(p.Name) {
		return fmt.Errorf("package name %q is malformed", p.Name)
	}
	for _, d := range p.Depends {
		if !validName(d) {
			return fmt.Errorf("package %s: depends: name %q is malformed", p.Name, d)
		}
	}
	if _, err := version.Parse(p.Version); err != nil {
		return fmt.Errorf("package %s: version %q: %w", p.Name, p.Version, err)
	}
	if !validName(p.Source) || p.SourceVersion == "" {
		return fmt.Errorf("package %s: source %q version %q is malformed", p.Name, p.Source, p.SourceVersion)
	}
	if !isSHA256(p.SHA256) {
		return fmt.Errorf("package %s: sha256 %q is not 64 lower-case hexadecimal digits", p.Name, p.SHA256)
	}
	if p.Size <= 0 || p.Size > maxDeb {
		return fmt.Errorf("package %s: size %d is not between 1 and %d bytes", p.Name, p.Size, int64(maxDeb))
	}
	if path.Clean(p.File) != p.File || !strings.HasPrefix(p.File, "pool/") || !strings.HasSuffix(p.File, ".deb") {
		return fmt.Errorf("package %s: file %q is not pool/.../*.deb", p.Name, p.File)
	}
	if p.Archive != BaseArchive && p.Archive != SecurityArchive {
		return fmt.Errorf("package %s: archive %q is neither %q nor %q", p.Name, p.Archive, BaseArchive, SecurityArchive)
	}
	if !validName(p.Architecture) {
		return fmt.Errorf("package %s: architecture %q is malformed", p.Name, p.Architecture)
	}
	return nil
}

func (p Package) fileName() string { return path.Base(p.File) }

// validName follows Debian Policy 5.6.1: lower-case letters, digits and "+-.",
// beginning with a letter or digit.
func validName(s string) bool {
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune("+-.", r)) {
			return false
		}
	}
	return s != ""
}

func comparePackages(a, b Package) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Architecture, b.Architecture), cmp.Compare(a.Version, b.Version))
}
