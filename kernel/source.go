package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// Source is a kernel as it came, with all its modules.
type Source struct {
	Origin  string // for the manifest: "deb linux-image-... 6.12.1-1"
	Key     string // another one where anything of the kernel is another
	Version string // uname -r
	Vmlinuz string // path on this host; bootable as it is
	// Config is the kernel's configuration, nil where it is not known; then Unknown says why.
	Config  []byte
	Unknown string
	Cmdline string            // words that the kernel's maker wants on its command line
	Modules map[string]string // path below /usr/lib/modules/<version> -> path on this host
}

var imageRE = regexp.MustCompile(`^linux-image-[0-9]`)

// Find picks the kernel image among the packages that a recipe's kernel package leads to.
func Find(debs []debian.Package) (debian.Package, error) {
	for _, d := range debs {
		if imageRE.MatchString(d.Name) {
			return d, nil
		}
	}
	return debian.Package{}, errors.New("kernel.package: neither it nor what it depends on is a kernel image (linux-image-<version>)")
}

// FromDebian is the kernel of an image package (linux-image-<version>).
func FromDebian(ctx context.Context, st *store.Store, deb debian.Package) (*Source, error) {
	files, err := debian.Files(ctx, st, deb)
	if err != nil {
		return nil, err
	}
	version := strings.TrimPrefix(deb.Name, "linux-image-")
	s := &Source{Origin: "deb " + deb.Name + " " + deb.Version, Key: deb.SHA256, Version: version, Modules: map[string]string{}}
	for _, f := range files.Files {
		rel, isModule := strings.CutPrefix(strings.TrimPrefix(f.Path, "usr/"), "lib/modules/"+version+"/")
		switch {
		case f.Type != "file":
		case f.Path == "boot/vmlinuz-"+version:
			s.Vmlinuz = files.Content(f)
		case f.Path == "boot/config-"+version:
			if s.Config, err = os.ReadFile(files.Content(f)); err != nil {
				return nil, err
			}
		case isModule:
			s.Modules[rel] = files.Content(f)
		}
	}
	if s.Vmlinuz == "" {
		return nil, fmt.Errorf("package %s holds no /boot/vmlinuz-%s", deb.Name, version)
	}
	if s.Config == nil {
		s.Unknown = "package " + deb.Name + " holds no /boot/config-" + version
	}
	return s, nil
}
