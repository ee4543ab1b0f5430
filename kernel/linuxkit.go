package kernel

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/store"
)

// Files of a LinuxKit kernel image (docs/kernels.md in its repository, and
// src/cmd/linuxkit/moby): the kernel, a tar of lib/modules, and words for the
// command line. kernel-dev.tar and whatever else there is is passed over.
const (
	linuxKitKernel  = "kernel"
	linuxKitModules = "kernel.tar"
	linuxKitCmdline = "cmdline"
)

// configNames are where such an image may have its kernel's configuration.
var configNames = []string{"kernel.config", "config", "kernel_config", "boot/config"}

// maxModules bounds what the modules of an image unpack to.
const maxModules = 4 << 30

// FromOCI is the kernel of an image laid out as LinuxKit's. open opens the image;
// it is called only where the store does not have its kernel yet.
func FromOCI(ctx context.Context, st *store.Store, arch, name, digest string, open func() (*oci.Image, error)) (*Source, error) {
	origin := "oci " + name + " " + digest
	dir, _, err := st.Action(ctx, store.Key("kernel-oci 1", digest, arch), func(ctx context.Context, dir string) error {
		img, err := open()
		if err != nil {
			return err
		}
		err = fromImage(ctx, img, arch, dir)
		if err = errors.Join(err, img.Close()); err != nil {
			return fmt.Errorf("kernel image %s (%s): %w", name, digest, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "source.json"))
	if err != nil {
		return nil, err
	}
	s := &Source{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, err
	}
	s.Origin, s.Key, s.Vmlinuz = origin, digest, filepath.Join(dir, "vmlinuz")
	for rel, p := range s.Modules {
		s.Modules[rel] = filepath.Join(dir, p)
	}
	return s, nil
}

// unpacked is what was found in an image so far.
type unpacked struct {
	dir     string
	kernel  []byte
	cmdline string
	configs map[string][]byte            // by name, in the image or among the modules
	modules map[string]map[string]string // by version, then path below it: path below dir
	left    int64
}

func fromImage(ctx context.Context, img *oci.Image, arch, dir string) error {
	if err := img.Verify(); err != nil {
		return err
	}
	u := &unpacked{dir: dir, configs: map[string][]byte{}, modules: map[string]map[string]string{}, left: maxModules}
	flat := mutate.Extract(img)
	defer flat.Close()
	for t := tar.NewReader(flat); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if err := u.take(strings.TrimPrefix(path.Clean("/"+h.Name), "/"), h, t); err != nil {
			return fmt.Errorf("/%s: %w", strings.TrimPrefix(h.Name, "/"), err)
		}
	}
	s, err := u.source(arch)
	if err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "vmlinuz"), u.kernel, 0o444), os.WriteFile(filepath.Join(dir, "source.json"), b, 0o444))
}

// take looks at one file of the image.
func (u *unpacked) take(name string, h *tar.Header, r io.Reader) (err error) {
	wanted := name == linuxKitKernel || name == linuxKitModules || name == linuxKitCmdline
	if h.Typeflag != tar.TypeReg {
		if wanted {
			return errors.New("it is no plain file")
		}
		return nil
	}
	switch {
	case name == linuxKitKernel:
		u.kernel, err = readAll(r, maxKernel)
	case name == linuxKitModules:
		err = u.tarOfModules(r)
	case name == linuxKitCmdline:
		var b []byte
		b, err = readAll(r, 64<<10)
		u.cmdline = strings.Join(strings.Fields(string(b)), " ")
	default:
		err = u.takeConfig(name, r)
	}
	return err
}

// takeConfig keeps a file that by its name is a kernel's configuration.
func (u *unpacked) takeConfig(name string, r io.Reader) (err error) {
	if slices.Contains(configNames, name) || path.Dir(name) == "boot" && strings.HasPrefix(path.Base(name), "config-") {
		u.configs[name], err = readAll(r, maxConfig)
	}
	return err
}

func (u *unpacked) tarOfModules(r io.Reader) error {
	r, err := decompress(r)
	if err != nil {
		return err
	}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		rel, ok := strings.CutPrefix(strings.TrimPrefix(name, "usr/"), "lib/modules/")
		version, rel, below := strings.Cut(rel, "/")
		switch {
		case h.Typeflag == tar.TypeLink:
			return fmt.Errorf("%s is a hard link; modules are plain files", name)
		case h.Typeflag != tar.TypeReg: // directories, and links to the source
		case !ok || !below:
			if err := u.takeConfig(name, t); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case !releaseRE.MatchString(version):
			return fmt.Errorf("%s: %q is not a kernel's release", name, version)
		default:
			if err := u.module(version, rel, h.Size, t); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
}

// module keeps a file below lib/modules/<version>.
func (u *unpacked) module(version, rel string, size int64, r io.Reader) error {
	if rel == "config" {
		var err error
		u.configs["lib/modules/"+version+"/config"], err = readAll(r, maxConfig)
		return err
	}
	if !strings.Contains(rel, ".ko") && !strings.HasPrefix(rel, "modules.") {
		return nil
	}
	if u.left -= size; u.left < 0 {
		return fmt.Errorf("the modules unpack to more than %d bytes", int64(maxModules))
	}
	if u.modules[version] == nil {
		u.modules[version] = map[string]string{}
	}
	at := filepath.Join("modules", version, filepath.FromSlash(rel))
	u.modules[version][rel] = at
	return replace(filepath.Join(u.dir, at), r)
}

// replace writes a file; one that comes twice in a tar is the later one.
func replace(to string, r io.Reader) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return write(r, to)
}

// source is what the image says, checked.
func (u *unpacked) source(arch string) (*Source, error) {
	if u.kernel == nil {
		return nil, errors.New("it holds no /kernel: it is not laid out as LinuxKit's kernels are")
	}
	k, is, err := bootable(u.kernel)
	if err != nil {
		return nil, fmt.Errorf("/kernel: %w", err)
	}
	if is != arch {
		return nil, fmt.Errorf("/kernel is for %s, and the node for %s", is, arch)
	}
	u.kernel = k
	s := &Source{Cmdline: u.cmdline}
	if s.Version, err = u.version(release(k)); err != nil {
		return nil, err
	}
	s.Modules = u.modules[s.Version]
	for _, n := range append([]string{"boot/config-" + s.Version, "lib/modules/" + s.Version + "/config"}, configNames...) {
		if b, ok := u.configs[n]; ok {
			if _, err := ReadConfig(b); err != nil {
				return nil, fmt.Errorf("/%s: %w", n, err)
			}
			s.Config = b
			return s, nil
		}
	}
	if s.Config, err = embedded(k); err != nil {
		s.Config, s.Unknown = nil, fmt.Sprintf("%v, and the image has none of %s", err, strings.Join(configNames, ", "))
	}
	return s, nil
}

// version is the kernel's release: as it says itself, or as its modules do.
func (u *unpacked) version(release string) (string, error) {
	have := slices.Sorted(maps.Keys(u.modules))
	switch {
	case release == "" && len(have) == 1:
		return have[0], nil
	case release == "":
		return "", fmt.Errorf("/kernel does not tell its release, and /kernel.tar has modules of %d", len(have))
	case !releaseRE.MatchString(release):
		return "", fmt.Errorf("/kernel calls itself %q, which is not a release", release)
	case len(have) > 0 && u.modules[release] == nil:
		return "", fmt.Errorf("/kernel is %s and /kernel.tar has modules of %s: they are not of one build", release, strings.Join(have, ", "))
	}
	return release, nil
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return b, err
}
