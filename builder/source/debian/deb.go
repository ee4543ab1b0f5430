package debian

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"
	"pault.ag/go/debian/control"
	"pault.ag/go/debian/deb"
)

// What a package may hold at most. Debian's largest are far below; beyond it
// lies a damaged file or a decompression bomb.
const (
	maxDeb     = 4 << 30 // bytes of a .deb
	maxControl = 4 << 20 // bytes of its control file
	maxPath    = 4096    // bytes of one path or link target
)

// limits are those that tests and the fuzzer set lower.
type limits struct {
	entries int    // files, directories and links
	bytes   int64  // sum of the files' sizes
	members int    // parts of the outer archive
	window  uint32 // bytes of the decompressor's dictionary
}

var debLimits = limits{entries: 1 << 20, bytes: 16 << 30, members: 16, window: 128 << 20}

// The types of an entry of a package.
const (
	TypeFile     = "file"
	TypeDir      = "dir"
	TypeSymlink  = "symlink"
	TypeHardlink = "hardlink"
)

// File is one entry of a package.
type File struct {
	Path   string `json:"path"` // without a leading slash or ./
	Type   string `json:"type"` // TypeFile, ...
	Mode   uint32 `json:"mode"` // permission bits with setuid 04000, setgid 02000, sticky 01000
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Link   string `json:"link,omitempty"`   // target of a symlink as written; Path of a hard link's target
	Size   int64  `json:"size,omitempty"`   // bytes; of a hard link, its target's
	SHA256 string `json:"sha256,omitempty"` // of the content; of a hard link, its target's
}

// control fields of a package that copyright files and SBOMs want.
type debControl struct {
	Package, Version, Architecture, Source, SourceVersion, Maintainer, Homepage, Description, BuiltUsing string
}

// readDeb reads a .deb (deb(5)) and hands every entry of its data archive to
// visit, in the order of the archive; content is nil for what is not a file. It
// refuses paths that lead out of the tree or through something that is no
// directory, entries that come twice, and what exceeds the limits.
func readDeb(in io.ReaderAt, lim limits, visit func(f File, content io.Reader) error) (debControl, error) {
	var c debControl
	ar, err := deb.LoadAr(in)
	if err != nil {
		return c, fmt.Errorf("not a .deb: %w", err)
	}
	var controlTar, dataTar *deb.ArEntry
	for n := 0; ; n++ {
		m, err := ar.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return c, fmt.Errorf("ar member %d: %w", n, err)
		}
		if m.Size < 0 || m.Size > maxDeb || n >= lim.members {
			return c, fmt.Errorf("ar member %d (%q): absurd size or number", n, m.Name)
		}
		switch {
		case n == 0:
			b, err := io.ReadAll(io.LimitReader(m.Data, 16))
			if err != nil || m.Name != "debian-binary" || !strings.HasPrefix(string(b), "2.") {
				return c, fmt.Errorf("not a .deb of format 2: it begins with %q %q", m.Name, b)
			}
		case strings.HasPrefix(m.Name, "control.tar") && controlTar == nil:
			controlTar = m
		case strings.HasPrefix(m.Name, "data.tar") && dataTar == nil:
			dataTar = m
		case !strings.HasPrefix(m.Name, "_"): // deb(5): others begin with an underscore
			return c, fmt.Errorf("ar member %d: unexpected %q", n, m.Name)
		}
	}
	if controlTar == nil || dataTar == nil {
		return c, errors.New("not a whole .deb: control.tar or data.tar is missing")
	}
	if c, err = readControl(controlTar, lim); err != nil {
		return c, fmt.Errorf("%s: %w", controlTar.Name, err)
	}
	if err := readData(dataTar, lim, visit); err != nil {
		return c, fmt.Errorf("%s: %w", dataTar.Name, err)
	}
	return c, nil
}

// decompress opens a member by the ending of its name.
func decompress(m *deb.ArEntry, lim limits) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(m.Data, 1<<16)
	switch path.Ext(m.Name) {
	case ".tar":
		return io.NopCloser(in), nil
	case ".gz":
		return gzip.NewReader(in)
	case ".xz":
		z, err := xz.NewReader(in, lim.window)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(z), nil
	case ".zst":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(lim.window)))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, errors.New("unknown compression")
}

func readControl(m *deb.ArEntry, lim limits) (debControl, error) {
	var c debControl
	z, err := decompress(m, lim)
	if err != nil {
		return c, err
	}
	defer z.Close()
	t := tar.NewReader(z)
	for n := 0; n < 1000; n++ {
		h, err := t.Next()
		if err != nil {
			return c, fmt.Errorf("no control file: %w", err)
		}
		if path.Clean(h.Name) != "control" {
			if h.Size > maxDeb {
				return c, fmt.Errorf("%q: absurd size", h.Name)
			}
			continue
		}
		if h.Size > maxControl {
			return c, fmt.Errorf("control file of %d bytes", h.Size)
		}
		r, err := control.NewParagraphReader(io.LimitReader(t, maxControl), nil)
		if err != nil {
			return c, err
		}
		p, err := r.Next()
		if err != nil {
			return c, fmt.Errorf("control file: %w", err)
		}
		c.Package, c.Version, c.Architecture = p.Values["Package"], p.Values["Version"], p.Values["Architecture"]
		c.Source, c.SourceVersion = parseSource(p.Values["Source"], c.Package, c.Version)
		c.Maintainer, c.Homepage = p.Values["Maintainer"], p.Values["Homepage"]
		c.BuiltUsing = strings.Join(strings.Fields(strings.Trim(p.Values["Built-Using"]+", "+p.Values["Static-Built-Using"], ", \n")), " ")
		c.Description, _, _ = strings.Cut(p.Values["Description"], "\n")
		if !validName(c.Package) || c.Version == "" {
			return c, fmt.Errorf("control file: package %q version %q", c.Package, c.Version)
		}
		return c, nil
	}
	return c, errors.New("no control file among the first 1000")
}

func readData(m *deb.ArEntry, lim limits, visit func(File, io.Reader) error) error {
	z, err := decompress(m, lim)
	if err != nil {
		return err
	}
	defer z.Close()
	seen := map[string]string{} // path -> type
	var total int64
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return parentsAreDirs(seen)
		}
		if err != nil {
			return err
		}
		f, err := entry(h)
		if err != nil {
			return err
		}
		if f.Path == "." {
			continue
		}
		if len(seen) >= lim.entries {
			return fmt.Errorf("more than %d entries", lim.entries)
		}
		if seen[f.Path] != "" {
			return fmt.Errorf("%q comes twice", f.Path)
		}
		if f.Type == TypeHardlink && seen[f.Link] != TypeFile {
			return fmt.Errorf("%q is a hard link to %q, which is no file before it", f.Path, f.Link)
		}
		seen[f.Path] = f.Type
		var content io.Reader
		if f.Type == TypeFile {
			if total += f.Size; f.Size > lim.bytes || total > lim.bytes {
				return fmt.Errorf("%q: more than %d bytes in all", f.Path, lim.bytes)
			}
			content = t
		}
		if err := visit(f, content); err != nil {
			return fmt.Errorf("%q: %w", f.Path, err)
		}
	}
}

// entry translates a tar header.
func entry(h *tar.Header) (File, error) {
	p, err := cleanPath(h.Name)
	if err != nil {
		return File{}, err
	}
	f := File{Path: p, Mode: uint32(h.Mode) & 0o7777, UID: h.Uid, GID: h.Gid}
	if h.Uid < 0 || h.Gid < 0 || h.Size < 0 {
		return f, fmt.Errorf("%q: negative owner or size", p)
	}
	switch h.Typeflag {
	case tar.TypeReg:
		f.Type, f.Size = TypeFile, h.Size
	case tar.TypeDir:
		f.Type = TypeDir
	case tar.TypeSymlink:
		f.Type, f.Link = TypeSymlink, h.Linkname
		if f.Link == "" || len(f.Link) > maxPath || strings.ContainsRune(f.Link, 0) {
			return f, fmt.Errorf("%q: malformed link target %q", p, f.Link)
		}
	case tar.TypeLink:
		f.Type = TypeHardlink
		if f.Link, err = cleanPath(h.Linkname); err != nil {
			return f, err
		}
	default:
		return f, fmt.Errorf("%q: entries of type %q are not taken", p, h.Typeflag)
	}
	if p == "." && f.Type != TypeDir {
		return f, errors.New("the root is not a directory")
	}
	return f, nil
}

// cleanPath makes "./usr/bin/x" and "usr/bin/x/" into "usr/bin/x".
func cleanPath(s string) (string, error) {
	if s == "" || len(s) > maxPath || s[0] == '/' || strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("malformed path %q", s)
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == ".." {
			return "", fmt.Errorf("path %q leads out of the package", s)
		}
	}
	return path.Clean(s), nil
}

// parentsAreDirs refuses entries below a file or a link: unpacked one after the
// other they would be written elsewhere.
func parentsAreDirs(seen map[string]string) error {
	for p := range seen {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if t := seen[d]; t != "" && t != TypeDir {
				return fmt.Errorf("%q lies below %q, which is a %s", p, d, t)
			}
		}
	}
	return nil
}
