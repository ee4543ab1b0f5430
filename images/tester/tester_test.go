package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeProc writes a /proc of the given files.
func fakeProc(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(text, "-> ")
		var err error
		if link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// addProcess describes a process as the kernel would.
func addProcess(files map[string]string, pid, ppid int, start uint64, exe, cgroup string, args ...string) {
	dir := fmt.Sprint(pid, "/")
	flags := 0x400100
	if exe == "" {
		flags |= kernelThread
	} else {
		files[dir+"exe"] = "-> " + exe
	}
	comm := filepath.Base(exe)
	files[dir+"stat"] = fmt.Sprintf("%d (%s) S %d %d 0 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0", pid, comm, ppid, pid, flags, start)
	files[dir+"comm"] = comm + "\n"
	files[dir+"cmdline"] = strings.Join(args, "\x00") + "\x00"
	files[dir+"cgroup"] = "0::" + cgroup + "\n"
}

func node() map[string]string {
	files := map[string]string{"uptime": "12.34 20.00\n", "meminfo": "MemTotal:  100 kB\nMemAvailable:   90 kB\n"}
	addProcess(files, 1, 0, 1, "/usr/lib/garboard/init", "/init", "/init")
	addProcess(files, 2, 0, 1, "", "/")
	addProcess(files, 60, 1, 200, "/usr/bin/crio", "/system/crio", "/usr/bin/crio")
	addProcess(files, 90, 1, 300, "/usr/bin/kubelet", "/system/kubelet", "/usr/bin/kubelet", "--v=1")
	addProcess(files, 100, 1, 400, "/usr/bin/conmon", "/kubepods/pod1", "/usr/bin/conmon", "-c", "abc", "-n", "k8s_hello_hello-node_default_u_0")
	addProcess(files, 101, 100, 401, "/hello", "/kubepods/pod1/abc", "/hello")
	return files
}

func TestReadProcesses(t *testing.T) {
	files := node()
	addProcess(files, 110, 60, 500, "/usr/bin/sleep (deleted)", "/system/crio", "sleep", "9")
	all, err := readProcesses(fakeProc(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 6 {
		t.Errorf("%d processes, want 6 (kernel threads do not count)", len(all))
	}
	for pid, want := range map[int]bool{1: false, 60: false, 90: false, 100: false, 101: false, 110: true} {
		if got := all[pid].stray(); got != want {
			t.Errorf("%+v: stray %t, want %t", all[pid], got, want)
		}
	}
	if p, ok := service(all, "kubelet"); !ok || p.pid != 90 {
		t.Errorf("kubelet: %+v, %t", p, ok)
	}
	if all[110].exe != "sleep" {
		t.Errorf("program of a deleted file: %q", all[110].exe)
	}
}

func TestContainerNotYetStarted(t *testing.T) {
	files := node()
	addProcess(files, 101, 100, 401, "/usr/bin/crun", "/kubepods/pod1/abc", "/usr/bin/crun", "create")
	all, err := readProcesses(fakeProc(t, files))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range containers(all) {
		if len(c.processes) != 0 {
			t.Errorf("container %s, created and not started, has processes %v", name, c.processes)
		}
	}
}

func TestStrays(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    process
		want bool
	}{
		{"another PID 1", process{pid: 1, exe: "systemd"}, true},
		{"a kubelet that PID 1 did not start", process{pid: 9, ppid: 60, exe: "kubelet", cgroup: "/"}, true},
		{"a conmon in a cgroup of its own", process{pid: 9, ppid: 1, exe: "conmon", cgroup: "/crio"}, false},
		{"a pod below another cgroup", process{pid: 9, ppid: 8, exe: "x", cgroup: "/node/kubepods/burstable/pod1/c"}, false},
		{"a name like a pod's", process{pid: 9, ppid: 8, exe: "x", cgroup: "/kubepodsx"}, true},
	} {
		if got := tt.p.stray(); got != tt.want {
			t.Errorf("%s: stray %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestContainersNoticeChanges(t *testing.T) {
	before, err := readProcesses(fakeProc(t, node()))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(map[string]string)
		want   string // part of the one change; "" = none
	}{
		{"nothing", func(map[string]string) {}, ""},
		{"one more", func(f map[string]string) {
			addProcess(f, 200, 1, 900, "/usr/bin/conmon", "/kubepods/p", "conmon", "-c", "d", "-n", "k8s_late_late-1-node_default_u_0")
		}, ""},
		{"another id", func(f map[string]string) {
			addProcess(f, 100, 1, 400, "/usr/bin/conmon", "/kubepods/p", "conmon", "-c", "def", "-n", "k8s_hello_hello-node_default_u_0")
		}, "is def"},
		{"another process under the same pid", func(f map[string]string) { addProcess(f, 101, 100, 999, "/hello", "/kubepods/p", "/hello") }, "999"},
		{"gone", func(f map[string]string) {
			for path := range f {
				if strings.HasPrefix(path, "100/") {
					delete(f, path)
				}
			}
		}, "is gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := node()
			tt.change(files)
			after, err := readProcesses(fakeProc(t, files))
			if err != nil {
				t.Fatal(err)
			}
			diff := changes(containers(before), containers(after))
			if (len(diff) == 0) != (tt.want == "") || !strings.Contains(strings.Join(diff, ";"), tt.want) {
				t.Errorf("got %q, want %q", diff, tt.want)
			}
		})
	}
}

const header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func TestUndocumented(t *testing.T) {
	files := node()
	files["90/fd/7"], files["60/fd/8"], files["101/fd/3"] = "-> socket:[701]", "-> socket:[702]", "-> socket:[703]"
	row := func(local, state, inode string) string {
		return "   0: " + local + " 00000000:0000 " + state + " 00000000:00000000 00:00000000 00000000     0        0 " + inode + " 1\n"
	}
	files["net/tcp"] = header + row("0100007F:9C40", "0A", "702") + row("0100007F:1F90", "01", "799")
	files["net/udp"] = header
	files["net/tcp6"] = header
	files["net/udp6"] = header
	for _, tt := range []struct {
		name, file, row string
		want            string // the one undocumented listener; "" = none
	}{
		{name: "as documented"},
		{"kubelet's port on all addresses", "net/tcp6", row("00000000000000000000000000000000:280A", "0A", "701"), "tcp6 [::]:10250 of kubelet"},
		{"the kubelet's health check", "net/tcp", row("0100007F:2808", "0A", "701"), "tcp 127.0.0.1:10248 of kubelet"},
		{"cri-o from outside", "net/tcp", row("0F02000A:9C41", "0A", "702"), "tcp 10.0.2.15:40001 of crio"},
		{"a pod on loopback", "net/tcp", row("0100007F:0050", "0A", "703"), "tcp 127.0.0.1:80 of hello"},
		{"UDP", "net/udp", row("00000000:0044", "07", "798"), "udp 0.0.0.0:68 of nobody known"},
		{"a UDP client", "net/udp", row("0F02000A:0044", "01", "798"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			with := map[string]string{}
			for k, v := range files {
				with[k] = v
			}
			with[tt.file] += tt.row
			delete(with, "")
			proc := fakeProc(t, with)
			all, err := readListeners(proc)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			if got := undocumented(proc, all); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestRootMounts(t *testing.T) {
	root := fakeProc(t, map[string]string{"mountinfo": "30 1 7:0 / / ro shared:1 - erofs /dev/loop0 ro\n31 30 0:5 / /dev rw - devtmpfs dev rw\n", "bad": "30 1 7:0\n"})
	if got, err := rootMounts(root + "/mountinfo"); err != nil || !slices.Equal(got, []string{"erofs"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := rootMounts(root + "/bad"); err == nil {
		t.Error("a broken table was read")
	}
}

func TestParameter(t *testing.T) {
	for _, tt := range []struct{ cmdline, want string }{
		{"quiet garboard.test=node x\n", "node"}, {"garboard.test=a garboard.test=b", "b"}, {"xgarboard.test=a", ""}, {"", ""},
	} {
		if got := parameter(tt.cmdline, "garboard.test"); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.cmdline, got, tt.want)
		}
	}
}

func TestPods(t *testing.T) {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	proc := fakeProc(t, node())
	for _, pod := range []func() error{
		func() error { return sigterm(time.Millisecond, say) },
		func() error { return stats(proc, time.Millisecond, say) },
		func() error { return seccomp(say) },
		func() error { return sleep(say) },
	} {
		termination() // SIGTERM must not end the test itself
		before := len(said)
		done := make(chan error)
		ready := make(chan struct{})
		go func() {
			for range 1000 { // the pod may not have asked for the signal yet
				time.Sleep(5 * time.Millisecond)
				select {
				case <-ready:
					return
				default:
					syscall.Kill(os.Getpid(), syscall.SIGTERM)
				}
			}
		}()
		go func() { done <- pod() }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the pod did not end on SIGTERM")
		}
		close(ready)
		if len(said) == before {
			t.Error("the pod said nothing")
		}
	}
	for _, want := range []string{"sigterm: finished", "uptime 12.34"} {
		if !slices.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	if err := dispatch([]string{"nonsense"}, say); err == nil {
		t.Error("an unknown pod ran")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 1 2 3")
	f.Add("7 (a) b) (c)) S 1 2")
	f.Add(")(")
	f.Fuzz(func(t *testing.T, stat string) {
		if p, _, err := parseStat(stat); err == nil && !strings.Contains(stat, "("+p.comm+")") {
			t.Errorf("%q: command %q", stat, p.comm)
		}
	})
}

func FuzzParseListeners(f *testing.F) {
	f.Add(header + "   0: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 701 1\n")
	f.Add(header + "   0: zz:2808 00000000:0000 0A 0 0 0 0 0 701 1\n")
	f.Fuzz(func(t *testing.T, table string) {
		list, err := parseListeners("tcp", table)
		for _, l := range list {
			if err == nil && !l.addr.IsValid() {
				t.Errorf("invalid address %v from %q", l, table)
			}
		}
	})
}

func TestCrioVersion(t *testing.T) {
	for _, c := range []struct{ text, version, want string }{
		{`{"version":"1.36.1","seccompEnabled":true}`, "1.36.1", ""},
		{`{"version":"1.36.1","seccompEnabled":false}`, "", "seccomp is not enabled"},
		{`{"seccompEnabled":true}`, "", "it tells none"},
		{`nonsense`, "", "crio version: "},
	} {
		got, err := crioVersion(c.text)
		if got != c.version || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", c.text, got, err)
		}
	}
}
