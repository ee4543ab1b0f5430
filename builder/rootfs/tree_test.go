package rootfs

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func file(p, body string) Entry { return FromBytes(p, 0o644, []byte(body), "test", "test") }

func link(p, to string) Entry {
	return Entry{Path: p, Kind: Symlink, Mode: 0o777, Link: to, Origin: "test", Reason: "test"}
}

func inner(e Entry) Entry { e.Inner = true; return e }

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		name string
		add  []Entry
		want string // in the error; "" = none
	}{
		{"two contents", []Entry{file("/a", "1"), file("/a", "2")}, "two entries for /a"},
		{"same content", []Entry{file("/a", "1"), file("/a", "1")}, ""},
		{"no reason", []Entry{{Path: "/a", Kind: Dir, Mode: 0o755, Origin: "x"}}, "no reason"},
		{"below a file", []Entry{file("/a", "1"), file("/a/b", "1")}, "lies below /a, which is a file"},
		{"below a link", []Entry{link("/lib", "usr/lib"), file("/lib/x", "1")}, "lies below /lib, which is a symlink to usr/lib"},
		{"implied directory of another mode", []Entry{file("/d/x", "1"), {Path: "/d", Kind: Dir, Mode: 0o700, Reason: "r"}}, "two entries for /d"},
		{"the root itself", []Entry{{Path: "/", Kind: Dir, Mode: 0o755, Reason: "r"}}, "describes / itself"},
		{"climbing path stays inside", []Entry{file("../../a", "1")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := New()
			var err error
			for _, e := range c.add {
				if err = tree.Add(e); err != nil {
					break
				}
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestCheckLinks(t *testing.T) {
	for _, c := range []struct {
		name string
		add  []Entry
		ok   bool
	}{
		{"to a file", []Entry{file("/usr/lib/a", "1"), link("/lib", "usr/lib"), link("/b", "/lib/a")}, true},
		{"relative", []Entry{file("/usr/lib/a", "1"), link("/usr/bin/b", "../lib/a")}, true},
		{"to nothing", []Entry{link("/b", "/nowhere")}, false},
		{"to what is made at boot", []Entry{link("/opt", "var/opt"), {Path: "/var", Kind: Dir, Mode: 0o755, Reason: "r"}}, true},
		{"a loop", []Entry{link("/a", "b"), link("/b", "a")}, false},
		{"above the root", []Entry{file("/x", "1"), link("/a", "../../../x")}, true},
		{"of a root within", []Entry{inner(link("/images/a", "/usr/bin/in-there"))}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := New()
			for _, e := range c.add {
				if err := tree.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := tree.Check(); (err == nil) != c.ok {
				t.Errorf("Check: %v, want ok = %v", err, c.ok)
			}
		})
	}
}

func TestKeyIgnoresTheOrderOfAdding(t *testing.T) {
	a, b := New(), New()
	for _, e := range []Entry{file("/a", "1"), file("/b/c", "2"), link("/d", "a")} {
		a.Add(e)
	}
	for _, e := range []Entry{link("/d", "a"), file("/b/c", "2"), file("/a", "1")} {
		b.Add(e)
	}
	if a.Key() != b.Key() {
		t.Error("two orders, two keys")
	}
	c, able := New(), file("/a", "1")
	able.Capabilities = "0100000200040000000000000000000000000000"
	c.Add(able)
	for _, e := range []Entry{file("/b/c", "2"), link("/d", "a")} {
		c.Add(e)
	}
	if a.Key() == c.Key() {
		t.Error("a file's capabilities are not in the key")
	}
	if err := c.Add(file("/a", "1")); err == nil {
		t.Error("one file with and without capabilities")
	}
	c = New()
	c.Add(file("/a", "1"))
	if a.Key() == c.Key() {
		t.Error("two trees, one key")
	}
}

func TestWriteTar(t *testing.T) {
	long := "/" + strings.Repeat("d/", 120) + strings.Repeat("n", 200)
	tree := New()
	suid := file("/bin/su", "x")
	suid.Mode, suid.UID, suid.GID = 0o4755, 0, 70000
	able := file("/bin/able", "x")
	able.Capabilities = "0100000200040000000000000000000000000000"
	for _, e := range []Entry{suid, able, file(long, "deep"), link("/l", strings.Repeat("t", 300)), file("/empty", "")} {
		if err := tree.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	when := time.Unix(1700000000, 0)
	var buf, again bytes.Buffer
	if err := tree.WriteTar(&buf, when); err != nil {
		t.Fatal(err)
	}
	if err := tree.WriteTar(&again, when); err != nil || !bytes.Equal(buf.Bytes(), again.Bytes()) {
		t.Errorf("two archives of one tree differ (%v)", err)
	}
	got := map[string]*tar.Header{}
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		got["/"+h.Name] = h
		if !h.ModTime.Equal(when) {
			t.Errorf("%s has time %v", h.Name, h.ModTime)
		}
	}
	if h := got["/./"]; h == nil || h.Mode != 0o755 || h.Uid != 0 {
		t.Errorf("the root directory: %+v", h)
	}
	if h := got["/bin/su"]; h == nil || h.Mode != 0o4755 || h.Gid != 70000 {
		t.Errorf("setuid file: %+v", h)
	}
	if h := got["/bin/able"]; h == nil || h.PAXRecords["SCHILY.xattr.security.capability"] != "\x01\x00\x00\x02\x00\x04"+strings.Repeat("\x00", 14) {
		t.Errorf("file with capabilities: %+v", h)
	}
	if got[long] == nil || len(got["/l"].Linkname) != 300 {
		t.Error("long names are lost")
	}
}

// fakeLibrary has the files of a directory of the test.
type fakeLibrary map[string][]Entry

func (f fakeLibrary) Find(p string) ([]Entry, bool) { e, ok := f[p]; return e, ok }

func TestCloseNamesWhoNeedsWhat(t *testing.T) {
	exe := filepath.Join("/proc/self/exe") // a race-built test is dynamic, a plain one static
	if b, err := os.ReadFile("/bin/sh"); err == nil {
		exe = filepath.Join(t.TempDir(), "sh")
		os.WriteFile(exe, b, 0o755)
	}
	e, err := FromFile("/usr/bin/sh", 0o755, exe, "", "deb dash 1", "test")
	if err != nil {
		t.Fatal(err)
	}
	n, err := e.needs()
	if err != nil || n == nil {
		t.Fatalf("the host's /bin/sh is not a dynamic program (%v)", err)
	}
	tree := New()
	if err := tree.Add(e); err != nil {
		t.Fatal(err)
	}
	err = tree.Close("x86_64-linux-gnu", fakeLibrary{})
	if err == nil || !strings.Contains(err.Error(), "/usr/bin/sh (from deb dash 1) needs "+n.interp) {
		t.Errorf("a dynamic program without its loader: %v", err)
	}
	within := New() // a container image has its own
	if err := within.Add(inner(e)); err != nil {
		t.Fatal(err)
	}
	if err := within.Close("x86_64-linux-gnu", fakeLibrary{}); err != nil || len(within.Entries()) != len(tree.Entries()) {
		t.Errorf("a dynamic program of a root within: %v", err)
	}
	lib := fakeLibrary{}
	for _, dir := range []string{"usr/lib/x86_64-linux-gnu/", "usr/lib64/", "usr/lib/"} {
		for _, l := range append(n.libs, filepath.Base(n.interp)) {
			lib[dir+l] = []Entry{{Path: dir + l, Kind: Symlink, Mode: 0o777, Link: "real-" + l, Origin: "deb libc6 1"}, file(dir+"real-"+l, "not ELF")}
		}
	}
	if err := tree.Close("x86_64-linux-gnu", lib); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range tree.Entries() {
		if strings.Contains(e.Path, n.libs[0]) && e.Reason == "shared library of /usr/bin/sh" {
			found = true
		}
	}
	if !found {
		t.Error("the library did not enter the tree with its reason")
	}
}
