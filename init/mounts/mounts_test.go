package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type fake struct {
	calls []string
	fail  map[string]error
}

func (f *fake) Mount(source, target, fstype string, flags uintptr, data string) error {
	k := fmt.Sprintf("mount %s %s", fstype, target)
	if flags&unix.MS_REMOUNT != 0 {
		k = "ro " + target
	}
	f.calls = append(f.calls, k)
	return f.fail[k]
}

func (f *fake) Unmount(target string, flags int) error {
	k := "umount " + target
	if flags&unix.MNT_DETACH != 0 {
		k = "detach " + target
	}
	f.calls = append(f.calls, k)
	return f.fail[k]
}

func TestMakeNamesWhatFailed(t *testing.T) {
	root := t.TempDir()
	f := &fake{fail: map[string]error{
		"mount mqueue " + filepath.Join(root, "/dev/mqueue"): unix.ENODEV, // optional
		"mount tmpfs " + filepath.Join(root, "/run"):         unix.EPERM,
		"mount tmpfs " + filepath.Join(root, "/tmp"):         unix.EBUSY, // mounted already
	}}
	err := Make(f, root, Base())
	if err == nil || !errors.Is(err, unix.EPERM) || strings.Count(err.Error(), "\n") != 0 {
		t.Fatalf("want exactly the failure of /run, got %v", err)
	}
	if !strings.Contains(err.Error(), "mount run (tmpfs) on /run") {
		t.Errorf("error does not name its entry: %v", err)
	}
	if len(f.calls) != len(Base()) {
		t.Errorf("a failure stopped the rest: %d calls", len(f.calls))
	}
	if st, err := os.Stat(filepath.Join(root, "dev/pts")); err != nil || !st.IsDir() {
		t.Errorf("/dev/pts was not made: %v", err)
	}
}

func TestNothingWritableForPodsIsNoexec(t *testing.T) {
	for _, m := range slices.Concat(Base(), Later(), EtcOverlay("/e"), []Mount{Memory(), Data("/dev/x")}) {
		exec := m.Target == "/var" || m.Target == "/etc" || m.Target == "/tmp"
		if exec && m.Flags&unix.MS_NOEXEC != 0 {
			t.Errorf("%s is noexec", m)
		}
		if m.Target == "/run" && m.Flags&unix.MS_NOEXEC == 0 {
			t.Errorf("%s is executable", m)
		}
		if m.Type == "tmpfs" && (!strings.Contains(m.Data, "size=") || !strings.Contains(m.Data, "nr_inodes=")) {
			t.Errorf("%s has no cap", m)
		}
		if m.Type == "tmpfs" && m.Flags&(unix.MS_NOSUID|unix.MS_NODEV) != unix.MS_NOSUID|unix.MS_NODEV {
			t.Errorf("%s lacks nosuid or nodev", m)
		}
	}
}

const sample = `22 1 7:0 / / ro,relatime shared:1 - erofs /dev/loop0 ro
23 22 0:5 / /dev rw,nosuid shared:2 - devtmpfs dev rw
24 22 0:6 / /var rw,nosuid,nodev shared:3 - tmpfs var rw
25 24 0:7 / /var/lib/kubelet/pods/a\040b rw shared:4 - tmpfs t rw
26 24 8:1 / /var/data rw shared:5 master:7 - ext4 /dev/vda1 rw
27 26 8:2 / /var/data rw - ext4 /dev/vda2 rw
`

func TestParseInfo(t *testing.T) {
	list, err := ParseInfo(sample + "nonsense\n")
	if err == nil || !strings.Contains(err.Error(), "line 7") {
		t.Errorf("the bad line is not named: %v", err)
	}
	if len(list) != 6 || list[3].Target != "/var/lib/kubelet/pods/a b" || list[4].Type != "ext4" || list[4].Source != "/dev/vda1" {
		t.Errorf("got %+v", list)
	}
}

func TestDeepestFirst(t *testing.T) {
	list, _ := ParseInfo(sample)
	var got []int
	for _, m := range DeepestFirst(list) {
		got = append(got, m.ID)
	}
	if want := []int{27, 26, 25, 24, 23, 22}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// kernel is a fake with a memory: a mount that others lie on is busy, and so is
// what busy, loop devices or swap say.
type kernel struct {
	fake
	list []Info
	loop map[string]string // device -> target of the mount with its file
	hang map[string]bool   // targets whose server does not answer
	auto map[string]bool   // devices that are freed with their mount
}

func newKernel(text string) *kernel {
	list, _ := ParseInfo(text)
	return &kernel{fake: fake{fail: map[string]error{}}, list: list, loop: map[string]string{}, hang: map[string]bool{}, auto: map[string]bool{}}
}

func (k *kernel) top(target string) int {
	for i := len(k.list) - 1; i >= 0; i-- {
		if k.list[i].Target == target {
			return i
		}
	}
	return -1
}

func (k *kernel) Unmount(target string, flags int) error {
	detach := flags&unix.MNT_DETACH != 0
	if k.hang[target] && !detach {
		select {}
	}
	if err := k.fake.Unmount(target, flags); err != nil {
		return err
	}
	i := k.top(target)
	if i < 0 {
		return unix.EINVAL
	}
	if !detach {
		for _, m := range k.list {
			if m.Parent == k.list[i].ID {
				return unix.EBUSY
			}
		}
		for _, t := range k.loop {
			if t == target {
				return unix.EBUSY
			}
		}
	}
	if k.auto[k.list[i].Source] {
		delete(k.loop, k.list[i].Source)
	}
	k.list = slices.Delete(k.list, i, i+1)
	return nil
}

func (k *kernel) text() (string, error) {
	var b strings.Builder
	for _, m := range k.list {
		fmt.Fprintf(&b, "%d %d %s / %s rw - %s %s rw\n", m.ID, m.Parent, m.Device, strings.ReplaceAll(m.Target, " ", `\040`), m.Type, m.Source)
	}
	return b.String(), nil
}

// release frees loop devices as LOOP_CLR_FD does: those that are mounted later.
func (k *kernel) release(root Info) (any bool) {
	for dev := range k.loop {
		if dev == root.Source {
			continue
		}
		if slices.ContainsFunc(k.list, func(m Info) bool { return m.Source == dev }) {
			k.auto[dev] = true
			continue
		}
		delete(k.loop, dev)
		any = true
	}
	return any
}

const many = sample + `28 24 0:5 /null /var/lib/kubelet/pods/x/subpath rw - devtmpfs dev rw
29 24 0:4 net:[4026] /var/run/netns/a rw - nsfs nsfs rw
30 26 7:1 / /var/data/volumes/a\040loop rw - ext4 /dev/loop1 rw
31 24 0:9 / /var/lib/kubelet/pods/x/nfs rw - nfs4 server:/export rw
32 26 8:1 /sub /var/data/bound\040twice rw - ext4 /dev/vda1 rw
`

func TestUnmountAll(t *testing.T) {
	for _, tt := range []struct {
		name    string
		text    string
		prepare func(*kernel)
		unclean string
		left    string // targets
		said    string
	}{
		{name: "all free", text: many, left: "/ /dev"},
		{name: "busy disk made read-only", text: sample, prepare: func(k *kernel) { k.fail["umount /var/data"] = unix.EBUSY },
			left: "/ /dev", said: "/var/data (ext4) was busy (device or resource busy), remounted read-only"},
		{name: "busy disk that stays writable", text: sample, prepare: func(k *kernel) {
			k.fail["umount /var/data"], k.fail["ro /var/data"] = unix.EBUSY, unix.EBUSY
		}, unclean: "could neither be unmounted", left: "/ /dev"},
		{name: "busy tmpfs loses nothing", text: sample, prepare: func(k *kernel) { k.fail["umount /var"] = unix.EBUSY },
			left: "/ /dev", said: "it held nothing that lasts"},
		{name: "loop devices on a disk", text: many, prepare: func(k *kernel) {
			k.loop["/dev/loop0"] = "/"         // the root's
			k.loop["/dev/loop1"] = "/var/data" // mounted
			k.loop["/dev/loop2"] = "/var/data" // a block volume: mounted nowhere
		}, left: "/ /dev"},
		{name: "a server that does not answer", text: many, prepare: func(k *kernel) { k.hang["/var/lib/kubelet/pods/x/nfs"] = true },
			unclean: "/var/lib/kubelet/pods/x/nfs (nfs4 on server:/export) could neither", left: "/ /dev", said: "does not answer, detached later"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKernel(tt.text)
			if tt.prepare != nil {
				tt.prepare(k)
			}
			var said []string
			u := &Unmounter{Sys: k, Read: k.text, Each: 20 * time.Millisecond, Rounds: 5, Release: k.release,
				Printf: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
			unclean := u.All()
			if got := strings.Join(unclean, "; "); (tt.unclean == "") != (got == "") || !strings.Contains(got, tt.unclean) {
				t.Errorf("unclean: %q, want %q", got, tt.unclean)
			}
			var left []string
			for _, m := range k.list {
				left = append(left, m.Target)
			}
			if got := strings.Join(left, " "); got != tt.left {
				t.Errorf("left: %s\ncalls: %s", got, strings.Join(k.calls, "\n"))
			}
			if got := strings.Join(said, "\n"); !strings.Contains(got, tt.said) || (tt.said == "") != (got == "") {
				t.Errorf("said %q, want %q", got, tt.said)
			}
			for _, c := range k.calls {
				if strings.HasSuffix(c, " /dev") || strings.HasSuffix(c, " /") {
					t.Errorf("%s: the last lines come through it", c)
				}
			}
		})
	}
}

func TestRelease(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/swaps":                        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/var/a\\040b/swap                         file\t\t8\t0\t-2\n",
		"sys/block/loop0/loop/backing_file": "/root.erofs (deleted)\n", "sys/block/loop1/loop/backing_file": "/var/x\n",
		"sys/block/loop2/loop/backing_file": "/var/y\n", "sys/block/loop3/size": "0\n",
	} {
		p := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var calls []string
	r := Releaser{Root: root, Printf: t.Logf,
		Swapoff: func(p string) error { calls = append(calls, "swapoff "+p); return unix.ENOMEM },
		Detach:  func(p string) error { calls = append(calls, "detach "+p); return nil }}
	if r.Free(Info{Source: "/dev/loop0"}) {
		t.Error("nothing was freed, but it says so")
	}
	if got := strings.Join(calls, ", "); got != "swapoff /var/a b/swap, detach /dev/loop1, detach /dev/loop2" {
		t.Error(got)
	}
	r.Detach = func(p string) error {
		if p == "/dev/loop1" {
			return unix.EPERM
		}
		return os.RemoveAll(filepath.Join(root, "sys/block/loop2/loop"))
	}
	if !r.Free(Info{Source: "/dev/loop0"}) {
		t.Error("loop2 was freed")
	}
}

type hanging struct{ fake }

func (h *hanging) Unmount(string, int) error { select {} }

func TestHungUnmountHasACeiling(t *testing.T) {
	u := &Unmounter{Sys: &hanging{}, Read: func() (string, error) { return sample, nil },
		Each: time.Millisecond, Printf: t.Logf, Rounds: 1}
	done := make(chan struct{})
	go func() { u.All(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("a hung unmount held everything up")
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add(sample)
	f.Add(`1 1 0:1 / /a\0401\1340 rw - tmpfs t rw`)
	f.Add("1 2 0:1 / /x rw\n2 1 0:1 / /y rw - a b c\n")
	f.Add("Filename Type\n/a\\040b file 1\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range parseSwaps(s) {
			if p == "" {
				t.Fatal("a swap without a name")
			}
		}
		list, _ := ParseInfo(s)
		if got := DeepestFirst(list); len(got) > len(list) {
			t.Fatalf("%d mounts out of %d", len(got), len(list))
		}
	})
}
