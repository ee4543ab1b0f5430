package mounts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const disks = `22 1 7:0 / / ro - erofs /dev/loop0 ro
24 22 0:20 / /var rw - tmpfs var rw
26 24 8:1 / /var/data rw - ext4 /dev/vda1 rw
27 26 8:1 /sub /var/data/bound rw - ext4 /dev/vda1 rw
28 26 0:9 / /var/data/nfs rw - nfs4 server:/export rw
29 22 8:2 / /mnt rw - ext4 /dev/vda2 rw
30 22 0:21 / /proc rw - proc proc rw
`

// With processes that nothing ends each disk is made read-only once, at its last
// mount, or frozen and then left alone; without them none is.
func TestQuiesce(t *testing.T) {
	for _, tt := range []struct {
		name      string
		survivors bool
		prepare   func(*kernel)
		freeze    error
		calls     string // that make read-only or freeze
		left      string
		unclean   string
		said      string
	}{
		{name: "no survivors", left: "/ /proc"},
		{name: "read-only", survivors: true, calls: "ro /mnt, ro /var/data", left: "/ /proc"},
		{name: "frozen", survivors: true, prepare: func(k *kernel) { k.fail["ro /var/data"] = unix.EBUSY },
			calls: "ro /mnt, ro /var/data, freeze /var/data", left: "/ /var/data /proc", said: "is in use (device or resource busy) and was frozen"},
		{name: "neither", survivors: true, prepare: func(k *kernel) { k.fail["ro /var/data"] = unix.EBUSY }, freeze: unix.EOPNOTSUPP,
			calls: "ro /mnt, ro /var/data, freeze /var/data", left: "/ /proc", said: "nor frozen (operation not supported)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKernel(disks)
			if tt.prepare != nil {
				tt.prepare(k)
			}
			var said []string
			u := &Unmounter{Sys: k, Read: k.text, Each: time.Minute, Rounds: 5, Survivors: tt.survivors,
				Freeze: func(target string) error { k.calls = append(k.calls, "freeze "+target); return tt.freeze },
				Printf: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
			if unclean := strings.Join(u.All(), "; "); unclean != tt.unclean {
				t.Errorf("unclean: %q, want %q", unclean, tt.unclean)
			}
			calls := slices.DeleteFunc(slices.Clone(k.calls), func(c string) bool { return !strings.HasPrefix(c, "ro ") && !strings.HasPrefix(c, "freeze ") })
			if got := strings.Join(calls, ", "); got != tt.calls {
				t.Errorf("calls %q, want %q; all: %q", got, tt.calls, k.calls)
			}
			var left []string
			for _, m := range k.list {
				left = append(left, m.Target)
			}
			if tt.name == "frozen" { // what it lies on is busy then, and detached: nothing lasts there
				left = slices.DeleteFunc(left, func(s string) bool { return s == "/var" })
			}
			if got := strings.Join(left, " "); got != tt.left {
				t.Errorf("left %q, want %q", got, tt.left)
			}
			if got := strings.Join(said, "\n"); !strings.Contains(got, tt.said) {
				t.Errorf("said %q, want %q", got, tt.said)
			}
		})
	}
}

// A file system that does not answer holds up no other, and is named.
func TestSync(t *testing.T) {
	list, err := ParseInfo(disks)
	if err != nil {
		t.Fatal(err)
	}
	synced := make(chan string, 10)
	hang := make(chan struct{})
	defer close(hang)
	doubt := Sync(list, func(target string) error {
		switch target {
		case "/var/data/nfs":
			<-hang
		case "/mnt":
			return unix.EIO
		}
		synced <- target
		return nil
	}, 500*time.Millisecond)
	if got := strings.Join(doubt, "; "); got != "sync of /mnt (ext4 on /dev/vda2): input/output error; sync of /var/data/nfs (nfs4 on server:/export): no answer within the ceiling" {
		t.Errorf("%s", got)
	}
	var got []string
	for len(synced) > 0 {
		got = append(got, <-synced)
	}
	slices.Sort(got)
	if s := strings.Join(got, " "); s != "/ /var/data/bound" { // each file system once
		t.Errorf("synced %s", s)
	}
	if doubt := Sync(list, func(string) error { return fmt.Errorf("open: %w", unix.ENOENT) }, time.Minute); doubt != nil {
		t.Errorf("hidden mounts: %q", doubt)
	}
	if !errors.Is(Syncfs(t.TempDir()+"/absent"), unix.ENOENT) || Syncfs(t.TempDir()) != nil {
		t.Error("syncfs")
	}
}
