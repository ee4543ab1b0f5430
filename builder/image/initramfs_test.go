package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"

	"garboard.local/builder/rootfs"
	"garboard.local/builder/store"
)

var epoch = time.Unix(1700000000, 0)

// oddTree has what writers get wrong: sizes around a block, long names, a
// setuid file, links to files and directories, two files of one content.
func oddTree(t *testing.T) *rootfs.Tree {
	t.Helper()
	tree := rootfs.New()
	add := func(e rootfs.Entry) {
		if err := tree.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 1, 3, 4, 511, 512, 513, 4095, 4096, 4097} {
		add(rootfs.FromBytes("/sizes/"+strings.Repeat("x", n%7+1)+string(rune('a'+n%26)), 0o644, bytes.Repeat([]byte{'z'}, n), "t", "t"))
	}
	add(rootfs.FromBytes("/"+strings.Repeat("long/", 40)+strings.Repeat("n", 255), 0o644, []byte("deep"), "t", "t"))
	suid := rootfs.FromBytes("/usr/bin/su", 0o4755, []byte("su"), "t", "t")
	suid.GID = 70000
	add(suid)
	add(rootfs.FromBytes("/usr/bin/same", 0o755, []byte("su"), "t", "t"))
	add(rootfs.Entry{Path: "/bin", Kind: rootfs.Symlink, Mode: 0o777, Link: "usr/bin", Origin: "t", Reason: "t"})
	add(rootfs.Entry{Path: "/tmp", Kind: rootfs.Dir, Mode: 0o1777, Origin: "t", Reason: "t"})
	return tree
}

func TestWriteCPIOKeepsEverything(t *testing.T) {
	tree := oddTree(t)
	var buf, again bytes.Buffer
	if err := WriteCPIO(&buf, tree, epoch); err != nil {
		t.Fatal(err)
	}
	if err := WriteCPIO(&again, tree, epoch); err != nil || !bytes.Equal(buf.Bytes(), again.Bytes()) {
		t.Errorf("two archives of one tree differ (%v)", err)
	}
	got := map[string][]byte{}
	inodes := map[int64]string{}
	r := cpio.NewReader(&buf)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := inodes[h.Inode]; taken {
			t.Errorf("%s and %s share inode %d", h.Name, other, h.Inode)
		}
		inodes[h.Inode] = h.Name
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = body
		if h.Name == "usr/bin/su" && (h.Mode&0o7777 != 0o4755 || h.Guid != 70000) {
			t.Errorf("usr/bin/su: mode %o, gid %d", h.Mode, h.Guid)
		}
		if h.Name == "bin" && h.Linkname != "usr/bin" {
			t.Errorf("bin is a link to %q", h.Linkname)
		}
	}
	for _, e := range tree.Entries() {
		body, ok := got[e.Path]
		if !ok {
			t.Errorf("%s is not in the archive", e.Path)
			continue
		}
		if e.Kind == rootfs.File {
			if sum := sha256.Sum256(body); int64(len(body)) != e.Size || len(sum) == 0 {
				t.Errorf("%s has %d bytes, want %d", e.Path, len(body), e.Size)
			}
		}
	}
}

func TestInitramfsIsTwoArchivesPaddedForAThird(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	img := filepath.Join(dir, "root.erofs")
	if err := os.WriteFile(img, bytes.Repeat([]byte("erofs"), 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	file, cached, err := Initramfs(context.Background(), st, nil, img, oddTree(t), epoch)
	if err != nil || cached {
		t.Fatalf("cached %t, %v", cached, err)
	}
	if _, cached, err := Initramfs(context.Background(), st, nil, img, oddTree(t), epoch); err != nil || !cached {
		t.Errorf("the same again: cached %t, %v", cached, err)
	}
	b, err := os.ReadFile(file)
	if err != nil || len(b)%block != 0 {
		t.Fatalf("%d bytes is no multiple of %d (%v)", len(b), block, err)
	}
	first := cpio.NewReader(bytes.NewReader(b))
	if h, err := first.Next(); err != nil || h.Name != "root.erofs" || h.Size != 5000 {
		t.Fatalf("first archive begins with %+v, %v", h, err)
	}
	magic := []byte{0x28, 0xb5, 0x2f, 0xfd}
	at := bytes.Index(b, magic)
	if at < 0 {
		t.Fatal("no zstd frame follows")
	}
	z, err := zstd.NewReader(bytes.NewReader(bytes.TrimRight(b[at:], "\x00")))
	if err != nil {
		t.Fatal(err)
	}
	second, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	third := bytes.Index(second, []byte("TRAILER!!!\x00"))
	for _, part := range []struct {
		bytes []byte
		names string
	}{{second, "dev dev/console dev/null"}, {bytes.TrimLeft(second[third+11:], "\x00"), "bin"}} {
		var got []string
		for r := cpio.NewReader(bytes.NewReader(part.bytes)); len(got) < len(strings.Fields(part.names)); {
			h, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, h.Name)
		}
		if strings.Join(got, " ") != part.names {
			t.Errorf("an archive begins with %q, want %s", got, part.names)
		}
	}
}

// The kernel looks for microcode from the first byte on, in an archive that is not
// compressed, and goes on behind it only at a multiple of four.
func TestMicrocodeComesFirst(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	img := filepath.Join(dir, "root.erofs")
	if err := os.WriteFile(img, []byte("erofs"), 0o644); err != nil {
		t.Fatal(err)
	}
	const name = "kernel/x86/microcode/GenuineIntel.bin"
	files := map[string]string{}
	for _, content := range []string{"microcode", "newer"} {
		tree := rootfs.New()
		if err := tree.Add(rootfs.FromBytes(name, 0o444, []byte(content), "deb", "reason")); err != nil {
			t.Fatal(err)
		}
		file, cached, err := Initramfs(context.Background(), st, tree, img, oddTree(t), epoch)
		if err != nil || cached {
			t.Fatalf("cached %t, %v", cached, err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files[content] = file
		r := cpio.NewReader(bytes.NewReader(b))
		var names []string
		for {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, h.Name)
			if h.Name == name {
				if got, err := io.ReadAll(r); err != nil || string(got) != content {
					t.Errorf("%q, %v", got, err)
				}
			}
		}
		if want := "kernel kernel/x86 kernel/x86/microcode " + name; strings.Join(names, " ") != want {
			t.Errorf("first archive %q, want %q", names, want)
		}
		at := bytes.Index(b, []byte("root.erofs\x00")) - 110 // the header's size
		if at < 0 || at%4 != 0 || string(b[at:at+6]) != "070701" {
			t.Errorf("the second archive begins at %d", at)
		}
	}
	if files["microcode"] == files["newer"] {
		t.Error("other microcode is the same initramfs")
	}
}

func TestEarlyNeedsModules(t *testing.T) {
	init := rootfs.FromBytes("/x", 0o755, []byte("init"), "t", "t")
	if _, err := Early(init, nil, "deb"); err == nil || !strings.Contains(err.Error(), "kernel.boot") {
		t.Errorf("an initramfs without modules: %v", err)
	}
}
