package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/builder/source/debian/debiantest"
)

func TestTools(t *testing.T) {
	ctx := context.Background()
	st := openStore(t)
	base := debiantest.Deb{Name: "base-files", Version: "1", Entries: []tar.Header{
		{Name: "./bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin"},
		{Name: "./usr/share/hello", Typeflag: tar.TypeReg, Mode: 0o600},
	}, Contents: map[string]string{"./usr/share/hello": "data"}}
	root, err := Tools(ctx, st, []Package{stored(t, st, hello()), stored(t, st, base)})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"lib/libhello.so": "lib", "usr/lib/libhello.so": "lib", "etc/hello": "data", "bin/hi": strings.Repeat("hello\n", 1000), "usr/bin/hallo": strings.Repeat("hello\n", 1000),
	} {
		if b, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	for path, want := range map[string]os.FileMode{"usr/bin/hello": 0o755, "usr/share/hello": 0o644, "usr/bin": os.ModeDir | 0o755} {
		if fi, err := os.Stat(filepath.Join(root, path)); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	if l, _ := os.Readlink(filepath.Join(root, "etc/hello")); l != "../usr/share/hello" {
		t.Errorf("an absolute link became %q", l)
	}
	again, err := Tools(ctx, st, []Package{stored(t, st, base), stored(t, st, hello())})
	if err != nil || again != root {
		t.Errorf("another order gave another root %s: %v", again, err)
	}

	rival := debiantest.Deb{Name: "rival", Version: "1", Entries: []tar.Header{{Name: "./usr/lib/libhello.so", Typeflag: tar.TypeReg}}}
	_, err = Tools(ctx, st, []Package{stored(t, st, hello()), stored(t, st, rival)})
	wantError(t, err, "package rival 1", `"usr/lib/libhello.so": package hello has that file as well`)
	_, err = Tools(ctx, st, []Package{{Name: "absent", Version: "1", SHA256: strings.Repeat("0", 64), File: "pool/absent.deb"}})
	wantError(t, err, "absent", "not fetched")
}

// A link in one package must not lead another's files out of the root.
func TestToolsStayInside(t *testing.T) {
	st := openStore(t)
	outside := t.TempDir()
	trap := debiantest.Deb{Name: "a-trap", Version: "1", Entries: []tar.Header{
		{Name: "./usr/trap", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("../", 40) + outside},
	}}
	victim := debiantest.Deb{Name: "victim", Version: "1", Entries: []tar.Header{{Name: "./usr/trap/file", Typeflag: tar.TypeReg}}}
	_, err := Tools(context.Background(), st, []Package{stored(t, st, trap), stored(t, st, victim)})
	wantError(t, err, "package victim 1")
	if l, _ := os.ReadDir(outside); len(l) > 0 {
		t.Errorf("written outside: %v", l)
	}
}

// dynamicELF is an ELF header that asks for the loader interp: all that Command reads.
func dynamicELF(t *testing.T, machine elf.Machine, interp string) []byte {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	p := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 64 + 56, Filesz: uint64(len(interp) + 1)}
	for _, v := range []any{h, p, append([]byte(interp), 0)} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestCommand(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		machine         elf.Machine
		interp, triplet string
	}{
		{elf.EM_X86_64, "/lib64/ld-linux-x86-64.so.2", "x86_64-linux-gnu"},
		{elf.EM_AARCH64, "/lib/ld-linux-aarch64.so.1", "aarch64-linux-gnu"},
	} {
		t.Run(tc.triplet, func(t *testing.T) {
			root := t.TempDir()
			write := func(path, content string) {
				t.Helper()
				path = filepath.Join(root, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			lib := "usr/lib/" + tc.triplet
			write(lib+"/pulseaudio/libpulsecommon-17.so", "")
			write(lib+"/gconv/libCNS.so", "")
			write(lib+"/perl/x.pl", "")
			write("usr/bin/script", "#!/bin/sh\n")
			write("usr/bin/kmod", string(dynamicELF(t, tc.machine, tc.interp)))
			write("usr/sbin/x", "")
			if err := os.Symlink("../bin/kmod", filepath.Join(root, "usr/sbin/depmod")); err != nil {
				t.Fatal(err)
			}

			wantError(t, Command(ctx, root, "script").Run(), "tool script", "is no ELF program")
			wantError(t, Command(ctx, root, "absent").Run(), "tool absent", "add its package to the tools", "`garboard lock`")
			wantError(t, Command(ctx, root, "depmod").Run(), "tool depmod", "its loader is not among the tools")

			write(tc.interp, "#!/bin/sh\nfor a; do echo \"$a\"; done\n") // a loader that shows what it is asked to do
			cmd := Command(ctx, root, "depmod", "-b", "a dir")
			if cmd.Env != nil {
				t.Errorf("it sets an environment: %q", cmd.Env)
			}
			out, err := cmd.CombinedOutput()
			libs := filepath.Join(root, lib) + ":" + filepath.Join(root, "usr/lib") + ":" + filepath.Join(root, lib, "pulseaudio")
			want := strings.Join([]string{"--inhibit-cache", "--library-path", libs, "--argv0", "depmod", filepath.Join(root, "usr/sbin/depmod"), "-b", "a dir", ""}, "\n")
			if err != nil || string(out) != want {
				t.Errorf("%v; the loader got\n%s\nwant\n%s", err, out, want)
			}
			if out, err := Command(ctx, root, "usr/bin/kmod").CombinedOutput(); err != nil || !strings.Contains(string(out), "--argv0\nkmod\n") {
				t.Errorf("by path: %v %s", err, out)
			}
		})
	}
}
