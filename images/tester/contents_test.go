package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"garboard.local/contents/observed"
)

const mountinfo = `22 1 0:20 / / ro,nodev,relatime shared:1 - erofs /dev/loop0 ro,user_xattr
23 22 0:21 / /run/a\040b rw,nosuid - tmpfs run rw,size=10k
`

func TestParseMounts(t *testing.T) {
	got, err := parseMounts(mountinfo)
	want := []observed.Mount{
		{Target: "/", Type: "erofs", Options: "ro,nodev,relatime", Super: "ro,user_xattr", Shared: true},
		{Target: "/run/a b", Type: "tmpfs", Options: "rw,nosuid", Super: "rw,size=10k"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parseMounts("22 1 0:20 / /\n"); err == nil {
		t.Error("a short line passed")
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add(mountinfo)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseMounts(text)
		if err == nil && len(all) > strings.Count(text, "\n")+1 {
			t.Errorf("%d mounts of %q", len(all), text)
		}
	})
}

func TestParseUnix(t *testing.T) {
	for _, tt := range []struct {
		line, address, inode string
		ok, bad              bool
	}{
		{"0000: 00000002 00000000 00010000 0001 01 4711 /run/system.sock", "/run/system.sock", "4711", true, false},
		{"0000: 00000002 00000000 00010000 0001 01 47 @abstract name", "@abstract name", "47", true, false},
		{"0000: 00000003 00000000 00000000 0001 03 48 /run/system.sock", "/run/system.sock", "48", false, false}, // connected
		{"0000: 00000002 00000000 00000000 0002 01 49 /dev/log", "/dev/log", "49", true, false},                  // datagram
		{"0000: 00000002 00000000 00010000 0001 01 50", "", "", false, false},                                    // no name yet
		{"0000: 00000002 00000000 0001zz00 0001 01 50 /x", "", "", false, true},
		{"0000: 00000002", "", "", false, true},
	} {
		address, inode, ok, err := parseUnix(tt.line)
		if ok != tt.ok || (err != nil) != tt.bad || ok && (address != tt.address || inode != tt.inode) {
			t.Errorf("%q: %q %q %t %v", tt.line, address, inode, ok, err)
		}
	}
}

func FuzzParseSockets(f *testing.F) {
	f.Add("0000: 00000002 00000000 00010000 0001 01 4711 /run/system.sock")
	f.Add("ffff8880 3 3 0800 2 1 0 0 815")
	f.Add("  1: 00000000:0001 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 99 2 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		for _, parse := range []func(string) (string, string, bool, error){parseUnix, parseRaw, parsePacket} {
			address, inode, ok, err := parse(line)
			if err == nil && ok && (address == "" || !strings.Contains(line, inode)) {
				t.Errorf("%q: %q %q", line, address, inode)
			}
		}
	})
}

func TestSockets(t *testing.T) {
	proc := fakeProc(t, map[string]string{
		"net/tcp": header + "   0: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 701 1\n",
		"net/udp": header, "net/unix": "Num\n0: 2 0 00010000 0001 01 702 @x\n", "net/packet": "sk\nffff 3 3 0800 2 1 0 0 703\n",
		"60/comm": "crio\n", "60/fd/3": "-> socket:[701]", "60/fd/4": "-> socket:[702]", "1/comm": "init\n", "1/fd/9": "-> socket:[703]",
	})
	got, err := sockets(proc)
	want := []observed.Socket{
		{Network: "tcp", Address: "127.0.0.1:10248", Owner: "crio"},
		{Network: "packet", Address: "ethertype 0800", Owner: "init"},
		{Network: "unix", Address: "@x", Owner: "crio"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Files on stores are seen with everything, those on others not.
func TestWalk(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"etc", "run", "proc", "sys/fs/bpf", "var/merged"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]uint32{"etc/passwd": 0o644, "run/x": 0o4755, "proc/1": 0o444, "var/merged/x": 0o644, "sys/fs/bpf/x": 0o644} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("abc"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("etc/passwd", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	files, err := walk(root, []observed.Mount{{Target: "/", Type: "erofs"}, {Target: "/etc", Type: "overlay"}, {Target: "/proc", Type: "proc"},
		{Target: "/sys", Type: "sysfs"}, {Target: "/sys/fs/bpf", Type: "bpf"}, {Target: "/var/merged", Type: "overlay"}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]observed.File{}
	for _, f := range files {
		got[f.Path] = f
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	for path, want := range map[string]observed.File{
		"/etc/passwd": {Type: observed.Regular, Mode: 0o644, Size: 3, SHA256: abc}, "/run/x": {Type: observed.Regular, Mode: 0o4755, Size: 3},
		"/link": {Type: observed.Symlink, Mode: 0o777, Link: "etc/passwd"}, "/sys/fs/bpf": {Type: observed.Dir, Mode: 0o755},
	} {
		want.Path, want.UID, want.GID = path, os.Getuid(), got[path].GID // a directory may hand its group on
		if got[path] != want {
			t.Errorf("%+v, want %+v", got[path], want)
		}
	}
	for _, path := range []string{"/proc/1", "/var/merged/x", "/sys/fs/bpf/x"} {
		if _, seen := got[path]; seen {
			t.Errorf("%s was walked into", path)
		}
	}
	if _, seen := got["/"]; !seen {
		t.Error("the root itself was not seen")
	}
}

// A key with a * is read for each interface.
func TestSysctls(t *testing.T) {
	proc := fakeProc(t, map[string]string{"sys/net/ipv4/conf/eth0.1/x": "1\n", "sys/net/ipv4/conf/lo/x": "0\n", "sys/kernel/y": "1\t2\n",
		"table": `{"sysctls":[{"key":"net.ipv4.conf.*.x"},{"key":"kernel.y"},{"key":"kernel.none"}]}`})
	got, err := sysctls(proc, filepath.Join(proc, "table"))
	if err != nil || len(got) != 3 || got["net/ipv4/conf/eth0.1/x"] != "1" || got["net/ipv4/conf/lo/x"] != "0" || got["kernel.y"] != "1 2" {
		t.Errorf("%v, %v", got, err)
	}
}
