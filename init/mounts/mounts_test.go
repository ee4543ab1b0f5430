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
		exec := m.Target == "/var" || m.Target == "/run" || m.Target == "/tmp"
		if exec && m.Flags&unix.MS_NOEXEC != 0 {
			t.Errorf("%s is noexec", m)
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

func TestUnmountAll(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fail    map[string]error
		unclean int
		calls   string
	}{
		{"all free", nil, 0,
			"umount /var/data,umount /var/data,umount /var/lib/kubelet/pods/a b,umount /var"},
		{"busy disk made read-only", map[string]error{"umount /var/data": unix.EBUSY}, 0,
			"umount /var/data,ro /var/data,detach /var/data,umount /var/data,ro /var/data,detach /var/data,umount /var/lib/kubelet/pods/a b,umount /var"},
		{"busy disk that stays writable", map[string]error{"umount /var/data": unix.EBUSY, "ro /var/data": unix.EBUSY}, 2, ""},
		{"busy tmpfs loses nothing", map[string]error{"umount /var": unix.EBUSY, "ro /var": unix.EBUSY}, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{fail: tt.fail}
			u := &Unmounter{Sys: f, Read: func() (string, error) { return sample, nil }, Each: time.Second,
				Printf: t.Logf, Rounds: 1}
			unclean := u.All()
			if len(unclean) != tt.unclean {
				t.Errorf("unclean: %q", unclean)
			}
			if got := strings.Join(f.calls, ","); tt.calls != "" && got != tt.calls {
				t.Errorf("calls: %s", got)
			}
		})
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
	f.Fuzz(func(t *testing.T, s string) {
		list, _ := ParseInfo(s)
		if got := DeepestFirst(list); len(got) > len(list) {
			t.Fatalf("%d mounts out of %d", len(got), len(list))
		}
	})
}
