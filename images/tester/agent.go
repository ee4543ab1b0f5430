package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func init() {
	// A service that a recipe added to those of every node (recipes/node-exporter.yaml).
	scenarios["agent"] = scenario{func(g *guest) error {
		if err := checkRunning(g); err != nil {
			return err
		}
		return errors.Join(g.checkAgent(), checkFilter(g.host), checkAgentDir(g.host), g.checkAgentVolumes(), g.checkRooted(), checkForbiddenCall(g.host), g.checkSameFilter(runtime.GOARCH), g.checkAgentRestart())
	}, func(*guest) error { return send(systemSocket, cmdShutdown) }}
}

const agent = "prometheus-node-exporter"

// checkAgent compares the service's process with its manifest.
func (g *guest) checkAgent() error {
	if err := within(serviceCeiling, agentAnswers); err != nil {
		return err
	}
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	p, ok := service(all, agent)
	if !ok {
		return fmt.Errorf("%s is no process of PID 1", agent)
	}
	dir := fmt.Sprintf("%s/%d", g.proc, p.pid)
	var wrong []string
	want := func(what, got, want string) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	for _, f := range [][2]string{
		{"Uid", "900\t900\t900\t900"}, {"Gid", "900\t900\t900\t900"}, {"Groups", "4000"},
		{"CapInh", "0000000000000000"}, {"CapPrm", "0000000000000000"}, {"CapEff", "0000000000000000"}, {"CapBnd", "0000000000000000"}, {"CapAmb", "0000000000000000"},
		{"NoNewPrivs", "1"}, {"Seccomp", "2"}, {"Seccomp_filters", "1"},
	} {
		got, err := statusField(dir+"/status", f[0])
		if err != nil {
			return err
		}
		want(f[0], got, f[1])
	}
	const group = "/garboard/node-exporter-exporter"
	want("cgroup", p.cgroup, group)
	for path, value := range map[string]string{
		filepath.Join(dir, "oom_score_adj"):                            "-500",
		filepath.Join(g.host, "sys/fs/cgroup", group, "memory.max"):    "134217728",
		filepath.Join(g.host, "sys/fs/cgroup", group, "memory.min"):    "16777216",
		filepath.Join(g.host, "sys/fs/cgroup", group, "cpu.weight"):    "2",
		filepath.Join(g.host, "sys/fs/cgroup", group, "cgroup.events"): "populated 1\nfrozen 0",
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		want(path, strings.TrimSpace(string(b)), value)
	}
	limits, err := os.ReadFile(dir + "/limits")
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"Max open files": "1024 1024", "Max core file size": "0 0"} {
		want(name, limit(string(limits), name), value)
	}
	if wrong != nil {
		slices.Sort(wrong)
		return fmt.Errorf("pid %d, %s: %s", p.pid, agent, strings.Join(wrong, "; "))
	}
	g.say("tester: pid %d, %s, is as its manifest says", p.pid, agent)
	return nil
}

// limit is the soft and the hard one of that name in proc_pid_limits(5).
func limit(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if f := strings.Fields(rest); len(f) >= 2 {
				return f[0] + " " + f[1]
			}
		}
	}
	return ""
}

// agentAnswers asks for the figures; one of them only a program that sees the
// machine's /proc can know.
func agentAnswers() error { return figures("\nnode_memory_MemTotal_bytes ") }

// figures demands that the agent has a figure, and the header that its
// configuration, a configMap, makes it send.
func figures(want string) error {
	c := http.Client{Timeout: 20 * time.Second}
	r, err := c.Get("http://127.0.0.1:9100/metrics")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK || !strings.Contains(string(b), want) {
		return fmt.Errorf("%s answers %s and %d bytes, without %q", agent, r.Status, len(b), want)
	}
	if h := r.Header.Get("X-Content-Type-Options"); h != "nosniff" {
		return fmt.Errorf("%s answers with the header %q: it has not read its configuration", agent, h)
	}
	return nil
}

// checkFilter asks the kernel for what the service's task has set, by the node's nft.
func checkFilter(host string) error {
	cmd := exec.Command("/usr/sbin/nft", "list", "chain", "inet", "node_exporter", "input")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: host}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `tcp dport 9100 iifname != "lo" drop`) {
		return fmt.Errorf("nft: %v: %q", err, out)
	}
	return nil
}

// checkAgentVolumes looks at the service's mounts: they are as its manifest says, and
// in no other process's sight. What is written to the hostPath arrives.
func (g *guest) checkAgentVolumes() error {
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	p, ok := service(all, agent)
	if !ok {
		return fmt.Errorf("%s is no process of PID 1", agent)
	}
	own, err := os.ReadFile(fmt.Sprintf("%s/%d/mountinfo", g.proc, p.pid))
	if err != nil {
		return err
	}
	node, err := os.ReadFile(filepath.Join(g.proc, "1/mountinfo"))
	if err != nil {
		return err
	}
	for target, want := range map[string]string{"/textfiles": "ro", "/etc/node-exporter/web": "ro", "/run/node-exporter": "rw"} {
		options, super := mountAt(string(own), target)
		if !slices.Contains(strings.Split(options, ","), want) {
			return fmt.Errorf("%s has %s mounted with %q, want %s", agent, target, options, want)
		}
		if target == "/run/node-exporter" && !slices.Contains(strings.Split(super, ","), "size=1024k") {
			return fmt.Errorf("%s has %s with %q, want a size of 1 MiB", agent, target, super)
		}
		if options, _ := mountAt(string(node), target); options != "" {
			return fmt.Errorf("%s is mounted for the whole node (%s)", target, options)
		}
	}
	// fsGroup: what the pod's volumes hold is the group's, by the service's own view.
	for path, mode := range map[string]os.FileMode{"/run/node-exporter": os.ModeDir | os.ModeSetgid | os.ModeSticky | 0o777, "/etc/node-exporter/web/config.yaml": 0o644} {
		fi, err := os.Stat(fmt.Sprintf("%s/%d/root%s", g.proc, p.pid, path))
		if err != nil {
			return err
		}
		if st := fi.Sys().(*syscall.Stat_t); st.Gid != 4000 || fi.Mode() != mode {
			return fmt.Errorf("%s has %s with %d:%d %v, want the group 4000 and %v", agent, path, st.Uid, st.Gid, fi.Mode(), mode)
		}
	}
	if err := os.WriteFile(filepath.Join(g.host, "var/lib/node-exporter/test.prom"), []byte("garboard_test 42\n"), 0o644); err != nil {
		return err
	}
	return within(serviceCeiling, func() error { return figures("\ngarboard_test 42\n") })
}

// mountAt are the options of the mount at a path and of its file system, in
// proc_pid_mountinfo(5); "" if there is none.
func mountAt(mountinfo, target string) (options, super string) {
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) > 5 && f[4] == target {
			options, super = f[5], f[len(f)-1]
		}
	}
	return options, super
}

func checkAgentDir(host string) error {
	fi, err := os.Stat(filepath.Join(host, "var/lib/node-exporter"))
	if err != nil {
		return err
	}
	if st := fi.Sys().(*syscall.Stat_t); st.Uid != 900 || st.Gid != 900 || fi.Mode().Perm() != 0o750 {
		return fmt.Errorf("/var/lib/node-exporter: %d:%d %v, want 900:900 0750", st.Uid, st.Gid, fi.Mode())
	}
	return nil
}

// checkAgentRestart kills the service; it comes back with the same rights.
func (g *guest) checkAgentRestart() error {
	if err := g.renewed(agent, kill); err != nil {
		return err
	}
	if err := g.checkAgent(); err != nil {
		return err
	}
	return within(serviceCeiling, func() error { return checkServiceStatus(filepath.Join(g.host, "run/garboard/services.json")) })
}

// checkServiceStatus demands that how services ended can be read afterwards.
func checkServiceStatus(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	type status struct {
		Name, State string
		PID         int
		Restarts    int
		Last        *struct {
			Started, Finished time.Time
			Code, Signal      int
		}
	}
	var all []status
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for _, want := range []struct {
		name, state    string
		runs           bool
		restarts, code int
	}{{"node-exporter-port", "done", false, 0, 0}, {"node-exporter-exporter", "ready", true, 1, 137}} {
		i := slices.IndexFunc(all, func(s status) bool { return s.Name == want.name })
		if i < 0 {
			return fmt.Errorf("%s has nothing of %s: %s", path, want.name, b)
		}
		if s := all[i]; s.State != want.state || (s.PID != 0) != want.runs || s.Restarts != want.restarts || s.Last == nil || s.Last.Code != want.code || !s.Last.Finished.After(s.Last.Started) {
			return fmt.Errorf("%s: %+v, want %+v", path, s, want)
		}
	}
	return nil
}
