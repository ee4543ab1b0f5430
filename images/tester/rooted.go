package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// What the image of a service of PID 1 is made of (cmd/garboard, packAgent) that a
// process in it can see.
const (
	rootedMark   = "/etc/mark" // each layer has one
	rootedFirst  = "/srv/app/ran"
	rootedShared = "/var/run/shared" // a volume behind a link of the image's
	rootedOn     = "rooted: well"    // its log says it in each run
	rootedAgain  = 7                 // how the first run ends
	rootedCaps   = "400"             // the file's capabilities: NET_BIND_SERVICE
)

// rooted is the program of that image. As a service it looks at what it is given and
// says what is wrong; the first time it ends with a failure then, and finds what it
// wrote the second time.
func rooted(kind string, say func(string, ...any)) error {
	if kind == "alive" { // its liveness probe, in the same root
		_, err := os.Stat(rootedFirst)
		if errors.Is(err, os.ErrNotExist) {
			err = nil // not yet
		}
		return err
	}
	if kind == "able" { // as a pod
		caps, err := statusField("/proc/self/status", "CapEff")
		if err == nil {
			say("rooted: effective capabilities %s", strings.TrimLeft(caps, "0"))
		}
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGQUIT, syscall.SIGTERM)
	_, again := os.Stat(rootedFirst)
	if err := errors.Join(seesItsRoot(kind)...); err != nil {
		for line := range strings.Lines(err.Error()) {
			say("rooted: WRONG %s", strings.TrimSpace(line))
		}
		return errors.New("it is not what its image and its manifest say")
	}
	if kind == "plain" && again != nil {
		if err := os.WriteFile(rootedFirst, nil, 0o600); err != nil {
			return err
		}
		say("%s, first run", rootedOn)
		os.Exit(rootedAgain)
	}
	say("%s, %s", rootedOn, kind)
	say("rooted: %s: %s", kind, <-ended)
	return nil
}

// seesItsRoot is everything that is not as it should be. kind is "plain" of a service
// that says nothing of security, "frozen" of root on a read-only root.
func seesItsRoot(kind string) []error {
	var out []error
	wrong := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	want := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			wrong("%s: %s, want %s", what, g, w)
		}
	}
	frozen := kind == "frozen"
	ids, dir, home := "4711:4712 [10]", "/srv/app", "/srv/app"
	if frozen {
		ids, dir, home = "0:0 []", "/made/for/it", "/root"
	}
	groups, err := os.Getgroups()
	if err != nil {
		wrong("groups: %v", err)
	}
	want("user and groups", fmt.Sprintf("%d:%d %v", os.Getuid(), os.Getgid(), slices.DeleteFunc(groups, func(g int) bool { return frozen && g == 0 })), ids)
	at, err := os.Getwd()
	want("directory", fmt.Sprint(at, err), dir+"<nil>")
	name, _ := os.Hostname()
	for k, v := range map[string]string{"APP": "of the image", "OWN": "of the manifest", "PATH": "/usr/local/bin:/usr/bin", "HOME": home, "HOSTNAME": name} {
		want("variable "+k, os.Getenv(k), v)
	}
	mark, err := os.ReadFile(rootedMark)
	want(rootedMark, fmt.Sprintf("%s %v", mark, err), "of the upper layer <nil>")
	for _, p := range []string{"/usr/lib/garboard", "/usr/bin/kubelet", "/etc/kubernetes", "/var/lib/kubelet", "/run/garboard", "/dev/kmsg", "/dev/vda", "/proc/1/root/etc"} {
		if _, err := os.Stat(p); err == nil {
			wrong("%s is seen", p)
		}
	}
	out = append(out, rootedNames(name)...)
	out = append(out, rootedKernel(frozen)...)
	out = append(out, rootedLeaks(frozen)...)
	if err := os.WriteFile("/srv/app/written", nil, 0o600); (err == nil) == frozen || frozen && !errors.Is(err, syscall.EROFS) {
		wrong("writing to its root: %v", err)
	}
	if err := os.WriteFile(filepath.Join(rootedShared, kind), nil, 0o600); err != nil {
		wrong("writing to its volume: %v", err)
	}
	// A program with libraries, behind links as distributions have them.
	if text, err := exec.Command("rolled", "--version").CombinedOutput(); err != nil || !strings.Contains(string(text), " from util-linux ") {
		wrong("mount: %v: %s", err, text)
	}
	return out
}

// rootedNames waits for the name servers: DHCP may not have been answered yet when the
// service begins, and PID 1 replaces the file then.
func rootedNames(name string) (out []error) {
	err := within(serviceCeiling, func() error {
		b, err := os.ReadFile("/etc/resolv.conf")
		if err == nil && !strings.Contains(string(b), "nameserver 10.0.2.") {
			err = fmt.Errorf("/etc/resolv.conf: %q", b)
		}
		return err
	})
	hosts, herr := os.ReadFile("/etc/hosts")
	if herr == nil && !strings.Contains(string(hosts), " "+name) {
		herr = fmt.Errorf("/etc/hosts: %q, without %s", hosts, name)
	}
	for _, err := range []error{err, herr} {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// rootedKernel looks at /dev, /proc and /sys.
func rootedKernel(frozen bool) (out []error) {
	wrong := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	var names []string
	list, err := os.ReadDir("/dev")
	for _, e := range list {
		names = append(names, e.Name())
	}
	want := "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
	if frozen {
		want = "fd full null own ptmx pts random shm stderr stdin stdout tty urandom zero"
		if _, err := os.Stat("/dev/own/part/deep"); err != nil {
			wrong("a volume in another in /dev: %v", err)
		}
	}
	if got := strings.Join(names, " "); got != want {
		wrong("/dev: %s %v, want %s", got, err, want)
	}
	for _, p := range []string{"/dev/null", "/dev/stdout"} {
		if err := os.WriteFile(p, []byte("written by name\n"), 0); err != nil {
			wrong("%v", err)
		}
	}
	for _, p := range []string{"/proc/sys/kernel/domainname", "/proc/sysrq-trigger"} {
		err := os.WriteFile(p, []byte("x"), 0)
		if !errors.Is(err, syscall.EROFS) && (frozen || !errors.Is(err, syscall.EACCES)) {
			wrong("writing to %s: %v", p, err)
		}
	}
	if err := os.Mkdir("/sys/fs/cgroup/own", 0o755); !errors.Is(err, syscall.EROFS) && (frozen || !errors.Is(err, syscall.EACCES)) {
		wrong("making a cgroup: %v", err)
	}
	if fi, err := os.Stat("/proc/kcore"); err == nil && fi.Mode()&os.ModeCharDevice == 0 {
		wrong("/proc/kcore is seen: %v", fi)
	}
	// Of the node's files those two, and not what /etc or /run has beside them.
	var own []string
	list, err = os.ReadDir("/.garboard")
	for _, e := range list {
		own = append(own, e.Name())
	}
	if got := strings.Join(own, " "); got != "hosts resolv.conf" {
		wrong("/.garboard: %s %v", got, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		wrong("%v", err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[4] == "/" || f[4] == "/.garboard" || f[4] == "/run/shared" || strings.HasPrefix(f[4], "/dev/own") || f[4] == "/dev/shm" {
			continue
		}
		if top, _, _ := strings.Cut(strings.TrimPrefix(f[4], "/"), "/"); !slices.Contains([]string{"dev", "proc", "sys"}, top) {
			wrong("%s is mounted", f[4])
		}
		if options, _, _ := strings.Cut(line, " - "); !strings.Contains(line, " - devtmpfs ") && strings.Contains(options, " master:") {
			wrong("what the node mounts later arrives in %s", f[4])
		}
	}
	return out
}

// checkRooted looks at the services with an image from the node: what they say, where
// they write, and that their task ran first.
func (g *guest) checkRooted() error {
	for service, lines := range map[string][]string{
		"rooted-foreign": {"rolled from util-linux"},
		"rooted-plain":   {rootedOn + ", first run", rootedOn + ", plain"},
		"rooted-frozen":  {rootedOn + ", frozen"},
	} {
		log := filepath.Join(g.host, "var/log/garboard", service+".log")
		if err := within(3*serviceCeiling, func() error { return inOrder(log, lines) }); err != nil {
			return err
		}
	}
	const pods = "lib/garboard/pods/default_rooted"
	for path, there := range map[string]bool{
		"var/" + pods + "/.roots/plain/upper" + rootedFirst: true, "var/" + pods + "/.roots/frozen": false, "run/" + pods[4:] + "/.roots/plain" + rootedFirst: true,
		"var/" + pods + "/shared/part/plain": true, "var/" + pods + "/shared/part/frozen": true,
	} {
		if _, err := os.Stat(filepath.Join(g.host, path)); (err == nil) != there {
			return fmt.Errorf("/%s: %v, want it there: %v", path, err, there)
		}
	}
	g.say("tester: services with an image see what they should")
	return nil
}

// inOrder demands that a log has the lines, in their order, and none that says WRONG.
func inOrder(log string, want []string) error {
	b, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	rest := want
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "WRONG") {
			return fmt.Errorf("%s: %s", log, b)
		}
		if len(rest) > 0 && strings.Contains(line, rest[0]) {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s has no %q: %s", log, rest, b)
	}
	return nil
}
