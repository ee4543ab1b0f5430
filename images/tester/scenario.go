package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// guest is what the scenarios work on.
type guest struct {
	proc, host string // /proc with the host's pids; the node's / below /host
	say        func(string, ...any)
	term       <-chan os.Signal // SIGTERM: the node ends this pod
	residents  map[int]process  // those that checkProcesses saw, which were there for some seconds
	contents   []byte           // what lookAtContents saw, for the host
}

// scenario is what one boot proves. after runs once the verdict is out.
type scenario struct {
	run   func(*guest) error
	after func(*guest) error
}

func stay(*guest) error { return nil }

var scenarios = map[string]scenario{
	// Everything about a running node; then it asks for power-off by the socket.
	"node": {checkNode, func(*guest) error { return send(systemSocket, cmdShutdown) }},
	// Only that the pods run: the host then uses one of the ways down.
	"running": {checkRunning, stay},
	// SIGTERM to PID 1.
	"sigterm-init": {checkRunning, func(*guest) error { return syscall.Kill(1, syscall.SIGTERM) }},
	// For the harness's own test: it must not take this for success.
	"refuse": {func(g *guest) error {
		return errors.Join(checkRunning(g), errors.New("refused on purpose"))
	}, stay},
}

// run carries out the scenario of the kernel command line and prints the verdict.
func run(say func(string, ...any)) error {
	g := &guest{proc: "/proc", host: "/host", say: say, term: termination()}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	name, nonce := parameter(string(cmdline), "garboard.test"), parameter(string(cmdline), "garboard.nonce")
	if name == "" {
		say("tester: no garboard.test= on the kernel command line: nothing to do")
		<-g.term
		return nil
	}
	s, ok := scenarios[name]
	if !ok {
		say("GARBOARD-VERDICT %s %s FAIL the tester knows no such scenario", nonce, name)
		<-g.term
		return nil
	}
	if err := s.run(g); err != nil {
		say("GARBOARD-VERDICT %s %s FAIL %s", nonce, name, strings.ReplaceAll(err.Error(), "\n", "; "))
	} else {
		say("GARBOARD-VERDICT %s %s PASS", nonce, name)
	}
	// PID 1 carries the line to the console before the node goes down.
	time.Sleep(3 * time.Second)
	if err := s.after(g); err != nil {
		say("tester: after the verdict: %v", err)
	}
	<-g.term
	say("tester: SIGTERM, bye")
	return nil
}

// parameter is the last value of key= on a kernel command line.
func parameter(cmdline, key string) string {
	value := ""
	for _, word := range strings.Fields(cmdline) {
		if v, ok := strings.CutPrefix(word, key+"="); ok {
			value = v
		}
	}
	return value
}

// checkRunning waits for the pods of the test image.
func checkRunning(g *guest) error {
	return within(podCeiling, func() error {
		all, err := readProcesses(g.proc)
		if err != nil {
			return err
		}
		found := containers(all)
		for _, want := range []string{"k8s_hello_hello-", "k8s_seccomp_seccomp-", "k8s_sigterm_sigterm-", "k8s_tester_tester-"} {
			running := false
			for name, c := range found {
				running = running || strings.HasPrefix(name, want) && len(c.processes) > 0
			}
			if !running {
				return fmt.Errorf("no running container %s* within %s", want, podCeiling)
			}
		}
		return nil
	})
}

// checkNode goes through all checks, and through all even if some fail.
func checkNode(g *guest) error {
	if err := checkRunning(g); err != nil {
		return err
	}
	var failed []error
	for _, check := range []struct {
		name string
		run  func() error
	}{
		// A container's first process is crun's for a moment.
		{"seccomp filter", func() error { return within(10*time.Second, g.checkSeccomp) }},
		{"versions", g.checkVersions},
		{"processes", g.checkProcesses},
		{"ports", g.checkPorts},
		{"contents", g.lookAtContents}, // before the tester itself writes to the node
		{"root file system", func() error { return checkRoot(g.host) }},
		{"pivot_root", func() error { return checkPivot(g.proc, g.host) }},
		{"cgroup hierarchy", func() error { return checkHierarchy(g.proc) }},
		{"modprobe", func() error { return checkModprobe(g.proc, g.host, g.say) }},
		{"the host's look at the ports", g.serveProbe},
		{"restart socket's limits", g.checkPrivilege},
		{"restarts", g.checkRestarts},
	} {
		begun := time.Now()
		err := check.run()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", check.name, err))
			g.say("tester: check %s: FAILED: %v", check.name, err)
			continue
		}
		g.say("tester: check %s: good, %s", check.name, time.Since(begun).Round(10*time.Millisecond))
	}
	return errors.Join(failed...)
}

// checkSeccomp looks at the pod with the RuntimeDefault profile from outside;
// what the pod says itself is the host's to judge.
func (g *guest) checkSeccomp() error {
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	for _, p := range all {
		if !slices.Contains(p.args, "seccomp") {
			continue
		}
		mode, err := statusField(fmt.Sprintf("%s/%d/status", g.proc, p.pid), "Seccomp")
		if err != nil {
			return err
		}
		if mode != "2" {
			return fmt.Errorf("the seccomp pod runs with Seccomp: %s", mode)
		}
		return nil
	}
	return errors.New("the process of the seccomp pod was not found")
}

// checkProcesses demands that nothing lives on the node but what belongs
// there. Helpers of a second (crun, mount) are no residents: what counts is a
// process seen twice, some seconds apart.
func (g *guest) checkProcesses() error {
	first, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	g.residents = first
	time.Sleep(4 * time.Second)
	second, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	var strays []string
	for pid, p := range second {
		if was, there := first[pid]; there && was.start == p.start && p.stray() {
			strays = append(strays, fmt.Sprintf("%d %s (parent %d, cgroup %s): %s", pid, p.exe, p.ppid, p.cgroup, strings.Join(p.args, " ")))
		}
	}
	slices.Sort(strays)
	if len(strays) > 0 {
		return fmt.Errorf("processes that belong to nobody: %s", strings.Join(strays, "; "))
	}
	g.say("tester: %d processes, all known", len(second))
	return nil
}

func (g *guest) checkPorts() error {
	all, err := readListeners(g.proc)
	if err != nil {
		return err
	}
	for _, l := range all {
		g.say("tester: listens: %s", l)
	}
	if bad := undocumented(g.proc, all); len(bad) > 0 {
		return fmt.Errorf("undocumented: %s", strings.Join(bad, ", "))
	}
	return nil
}

// probePort is where the host reaches the tester, which proves that the
// host's other forwards would reach the kubelet, were its port open.
const probePort = 18080

// serveProbe greets whoever connects until one of them says "probed"; to one who
// says "contents" it tells what lookAtContents saw, in JSON.
func (g *guest) serveProbe() error {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", probePort))
	if err != nil {
		return err
	}
	defer l.Close()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(podCeiling))
	g.say("tester: listening for the host on port %d", probePort)
	for {
		c, err := l.Accept()
		if err != nil {
			return fmt.Errorf("the host did not come: %w", err)
		}
		c.SetDeadline(time.Now().Add(5 * time.Second))
		io.WriteString(c, "garboard tester\n")
		word, err := io.ReadAll(io.LimitReader(c, 16))
		if err == nil && strings.TrimSpace(string(word)) == "contents" {
			c.SetDeadline(time.Now().Add(time.Minute))
			if _, err := c.Write(g.contents); err != nil {
				g.say("tester: contents for the host: %v", err)
			}
		}
		c.Close()
		if err == nil && strings.TrimSpace(string(word)) == "probed" {
			return nil
		}
	}
}
