package debiantest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Deb describes a package to be built. Only Name and Version are required.
type Deb struct {
	Name, Version                           string
	Arch                                    string // "" means amd64
	Component                               string // "" means main
	Source                                  string // field Source, as it is written
	Depends, PreDepends, Provides, Priority string
	Entries                                 []tar.Header
	Contents                                map[string]string // by the entry's name
	Compression                             string            // "xz" (also for ""), "zst", "gz" or "none"
}

func (d Deb) arch() string {
	if d.Arch == "" {
		return "amd64"
	}
	return d.Arch
}

func (d Deb) component() string {
	if d.Component == "" {
		return "main"
	}
	return d.Component
}

// fields are those that a control file and a Packages file share.
func (d Deb) fields() string {
	var b bytes.Buffer
	for _, f := range [][2]string{
		{"Package", d.Name}, {"Source", d.Source}, {"Version", d.Version}, {"Architecture", d.arch()}, {"Priority", d.Priority},
		{"Pre-Depends", d.PreDepends}, {"Depends", d.Depends}, {"Provides", d.Provides},
		{"Maintainer", "Nobody <nobody@example.org>"}, {"Description", "test package\n long text\n ."},
	} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	return b.String()
}

// Bytes is the .deb.
func (d Deb) Bytes() []byte {
	ext := "." + d.Compression
	switch d.Compression {
	case "":
		ext = ".xz"
	case "none":
		ext = ""
	}
	return Ar([]Member{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar.gz", d.Control()},
		{"data.tar" + ext, compress(ext, archive(d.Entries, d.Contents))},
	})
}

// Control is the control.tar.gz of the .deb.
func (d Deb) Control() []byte {
	return compress(".gz", archive([]tar.Header{{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "./control", Typeflag: tar.TypeReg, Mode: 0o644}},
		map[string]string{"./control": d.fields()}))
}

// Member is a part of an ar archive.
type Member struct {
	Name string
	Data []byte
}

// Ar is an ar archive in the form that deb(5) describes.
func Ar(members []Member) []byte {
	out := bytes.NewBufferString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.Name, 0, 0, 0, "100644", len(m.Data))
		out.Write(m.Data)
		if len(m.Data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

func archive(entries []tar.Header, contents map[string]string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		c := contents[h.Name]
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(c))
		}
		must(w.WriteHeader(&h))
		_, err := io.WriteString(w, c)
		must(err)
	}
	must(w.Close())
	return b.Bytes()
}

func compress(ext string, data []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch ext {
	case "":
		return data
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".zst":
		w, err = zstd.NewWriter(&b)
	case ".xz":
		w, err = xz.NewWriter(&b)
	default:
		panic("debiantest: unknown compression " + ext)
	}
	must(err)
	_, err = w.Write(data)
	must(err)
	must(w.Close())
	return b.Bytes()
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("debiantest: %v", err))
	}
}
