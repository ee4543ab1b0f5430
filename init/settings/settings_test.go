package settings

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"garboard.local/init/table"
)

func TestCmdline(t *testing.T) {
	c := ParseCmdline("console=ttyS0 garboard.console=pods,services quiet x=\"a b\" garboard.hostname=a garboard.hostname=b\n")
	if c["x"] != "a b" || c["garboard.hostname"] != "b" || !c.Has("garboard.console", "services") || c.Has("garboard.console", "pod") {
		t.Errorf("got %q", c)
	}
	if _, ok := c["quiet"]; !ok {
		t.Error("a word without value is lost")
	}
}

func FuzzParseCmdline(f *testing.F) {
	f.Add(`a="b c" d "`)
	f.Fuzz(func(t *testing.T, s string) {
		for k := range ParseCmdline(s) {
			if strings.ContainsAny(k, "=\"") {
				t.Errorf("key %q", k)
			}
		}
	})
}

func TestSysctls(t *testing.T) {
	root := t.TempDir()
	for _, p := range []string{"net/ipv4/ip_forward", "net/ipv4/conf/eth0.1/forwarding"} {
		full := filepath.Join(root, "proc/sys", p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := Sysctls(root, []table.Sysctl{
		{Key: "net.ipv4.ip_forward", Value: "1"},
		{Key: "net/ipv4/conf/eth0.1/forwarding", Value: "1"},
		{Key: "net.ipv4.conf.eth0/1.forwarding", Value: "1"},
		{Key: "vm.missing", Value: "1"},
		{Key: "vm.optional", Value: "1", Optional: true},
		{Key: "../../etc/passwd", Value: "x"},
	})
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "vm.missing") || !strings.Contains(err.Error(), "passwd") {
		t.Errorf("want two failures, got %v", err)
	}
	b, _ := os.ReadFile(filepath.Join(root, "proc/sys/net/ipv4/ip_forward"))
	if string(b) != "1\n" {
		t.Errorf("ip_forward = %q", b)
	}
	if _, err := os.Stat(filepath.Join(root, "proc/sys/vm")); err == nil {
		t.Error("a key the kernel lacks was made up")
	}
}

// Interfaces that came before "default" was set have values of their own.
func TestSysctlsOfEachInterface(t *testing.T) {
	root := t.TempDir()
	conf := filepath.Join(root, "proc/sys/net/ipv4/conf")
	for _, link := range []string{"all", "default", "lo", "eth0.1"} {
		if err := os.MkdirAll(filepath.Join(conf, link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(conf, link, "send_redirects"), []byte("1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := Sysctls(root, []table.Sysctl{
		{Key: "net.ipv4.conf.*.send_redirects", Value: "0"},
		{Key: "net.ipv6.conf.*.accept_redirects", Value: "0", Optional: true},
		{Key: "net.ipv4.conf.*.missing", Value: "0"},
	})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "net.ipv4.conf.*.missing") {
		t.Errorf("want one failure, got %v", err)
	}
	for _, link := range []string{"all", "default", "lo", "eth0.1"} {
		if b, err := os.ReadFile(filepath.Join(conf, link, "send_redirects")); err != nil || !strings.HasPrefix(string(b), "0\n") {
			t.Errorf("%s: %q, %v", link, b, err)
		}
	}
}

func TestDirs(t *testing.T) {
	root := t.TempDir()
	if err := Dirs(root, []table.Dir{{Path: "/var/lib/kubelet", Mode: table.FileMode(0o700)}, {Path: "/var/tmp", Mode: table.FileMode(0o1777)}}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(root, "var/tmp")); err != nil || st.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("/var/tmp: %v %v", st.Mode(), err)
	}
	if os.Getuid() == 0 { // nobody else may give a directory away
		if err := Dirs(root, []table.Dir{{Path: "/var/lib/agent", Mode: table.FileMode(0o2750), UID: 900, GID: 901}}); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(root, "var/lib/agent"))
		if err != nil || st.Mode() != os.ModeDir|os.ModeSetgid|0o750 || st.Sys().(*syscall.Stat_t).Uid != 900 || st.Sys().(*syscall.Stat_t).Gid != 901 {
			t.Errorf("/var/lib/agent: %v %v", st, err)
		}
	}
	st, err := os.Stat(filepath.Join(root, "var/lib/kubelet"))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", st, err)
	}
}

func TestMachineID(t *testing.T) {
	got, err := MachineID("7B4A1E8C-0F0D-4B43-9C3C-5A9D0B0C7E11\n")
	if err != nil || got != "7b4a1e8c0f0d4b439c3c5a9d0b0c7e11\n" {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range []string{"", "Not Settable", "00000000-0000-0000-0000-000000000000"} {
		got, err := MachineID(bad)
		if err != nil || !regexp.MustCompile(`^[0-9a-f]{12}4[0-9a-f]{19}\n$`).MatchString(got) {
			t.Errorf("%q: %q %v", bad, got, err)
		}
	}
}

func TestClockFloor(t *testing.T) {
	built := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	if to, ok := ClockFloor(time.Unix(0, 0), built); !ok || !to.Equal(built) {
		t.Error("a clock in 1970 may stay")
	}
	if _, ok := ClockFloor(built.Add(time.Second), built); ok {
		t.Error("a right clock is set back")
	}
	if _, ok := ClockFloor(time.Unix(0, 0), time.Time{}); ok {
		t.Error("no build time is no floor")
	}
}
