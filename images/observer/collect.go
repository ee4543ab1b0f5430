package main

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// world is who runs the pods.
type world interface {
	status() ([]byte, error)     // of all pods
	steady(status []byte) []byte // what of it stays while nothing happens
	remove(pods ...string) error // ends pods as an operator would
	left(pod string) []string    // what of the pod is there after its end
	power() error                // off
}

// report is what the host is told.
type report struct {
	Events     []json.RawMessage `json:"events"`
	Namespaces map[string]string `json:"namespaces"` // the machine's
	Status     string            `json:"status"`     // before the end of that pod
	Left       []string          `json:"left"`       // of its directories
	Troubles   []string          `json:"troubles"`   // the collector's own
}

func (r *report) note(err error) {
	if err != nil {
		r.Troubles = append(r.Troubles, err.Error())
	}
}

// collect waits until the pods have done what there is to see, ends some, and prints
// all as lines "OBSERVED NONCE NUMBER/COUNT BASE64" of a gzipped report. What to wait
// for is on the kernel command line, the same for all worlds that take the pods: observed.wait= and, after
// the end of the pods observed.end=, observed.gone=, each POD/CONTAINER:WHAT:RUN,...
func collect(args []string) error {
	f := flag.NewFlagSet("collect", flag.ContinueOnError)
	dir := f.String("from", "/observed", "directory of the events")
	who := f.String("of", "", "kubelet, systemd or init")
	ceiling := f.Duration("ceiling", 150*time.Second, "how long to wait for the events, at most")
	host := f.String("host", "/", "the machine's root directory")
	if err := f.Parse(args); err != nil {
		return err
	}
	var w world
	switch *who {
	case "kubelet":
		w = kubelet{*host}
	case "systemd":
		w = systemd{}
	case "init":
		w = node{*host}
	default:
		return fmt.Errorf("collect: -of %q: kubelet, systemd or init", *who)
	}
	var nonce, wait, end, gone string
	for name, v := range map[string]*string{"garboard.nonce": &nonce, "observed.wait": &wait, "observed.end": &end, "observed.gone": &gone} {
		var err error
		if *v, err = argument(name); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(*ceiling)
	var r report
	r.note(awaitEvents(*dir, strings.Split(wait, ","), deadline))
	status, err := settled(w, deadline)
	r.Status = string(status)
	r.note(err)
	before, err := bootTime()
	r.note(err)
	ended := strings.Split(end, ",")
	r.note(w.remove(ended...))
	r.note(awaitEvents(*dir, strings.Split(gone, ","), time.Now().Add(*ceiling/4)))
	for range 40 { // 20 s: both take a pod's directories away after its end
		r.Left = nil
		for _, pod := range ended {
			r.Left = append(r.Left, w.left(pod)...)
		}
		if len(r.Left) == 0 {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	files, err := filepath.Glob(filepath.Join(*dir, "*.jsonl"))
	r.note(err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		r.note(err)
		for line := range bytes.Lines(b) {
			if of(line, ended) || !after(line, before) { // where one pod's end is the machine's, others end too
				r.Events = append(r.Events, bytes.TrimSpace(line))
			}
		}
	}
	r.Namespaces = map[string]string{}
	for _, n := range namespaces {
		r.Namespaces[n], err = os.Readlink("/proc/1/ns/" + n)
		r.note(err)
	}
	return errors.Join(print(os.Stdout, nonce, r), w.power())
}

// of says whether an event is one of some pods.
func of(line []byte, pods []string) bool {
	var e Event
	_ = json.Unmarshal(line, &e) // one that is cut short is nobody's, and kept for the host to see
	pod, _, _ := strings.Cut(e.Who, "/")
	return slices.Contains(pods, pod)
}

func after(line []byte, at int64) bool {
	var e Event
	return json.Unmarshal(line, &e) == nil && e.At > at
}

// lineLength is what fits into one record of the kernel's log beside a prefix, in bytes.
const lineLength = 700

// print writes a report in lines that no console cuts.
func print(out io.Writer, nonce string, r report) error {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if err := errors.Join(json.NewEncoder(w).Encode(r), w.Close()); err != nil {
		return err
	}
	chunks := slices.Collect(slices.Chunk([]byte(base64.StdEncoding.EncodeToString(z.Bytes())), lineLength))
	for i, c := range chunks {
		if _, err := fmt.Fprintf(out, "OBSERVED %s %d/%d %s\n", nonce, i+1, len(chunks), c); err != nil {
			return err
		}
	}
	return nil
}

// awaitEvents waits for all of the events.
func awaitEvents(dir string, wanted []string, deadline time.Time) error {
	for {
		missing := ""
		for _, w := range wanted {
			part := strings.Split(w, ":")
			if len(part) != 3 {
				return fmt.Errorf("%q: want POD/CONTAINER:WHAT:RUN", w)
			}
			b, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(part[0], "/", ".")+".jsonl"))
			if err != nil || !bytes.Contains(b, fmt.Appendf(nil, `"what":%q,"run":%s,`, part[1], part[2])) {
				missing += " " + w
			}
		}
		if missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("did not happen:%s", missing)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// settled is the status when it has stayed the same for four looks, 9 s: longer than any grace.
func settled(w world, deadline time.Time) ([]byte, error) {
	var last []byte
	for same := 0; ; {
		b, err := w.status()
		now := w.steady(b)
		if err == nil && bytes.Equal(now, last) {
			if same++; same == 3 {
				return b, nil
			}
		} else {
			last, same = now, 0
		}
		if time.Now().After(deadline) {
			return b, errors.Join(err, errors.New("the status did not settle"))
		}
		time.Sleep(3 * time.Second)
	}
}

// argument is a word of the kernel command line.
func argument(name string) (string, error) {
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "", err
	}
	for _, w := range strings.Fields(string(b)) {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("the kernel command line has no %s=", name)
}

// kubelet: the one of this node, which serves on loopback.
type kubelet struct{ host string }

func (k kubelet) status() ([]byte, error) {
	// insecure: the kubelet's certificate is its own.
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	c := http.Client{Timeout: 10 * time.Second, Transport: tr}
	r, err := c.Get("https://127.0.0.1:10250/pods")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("kubelet: %s: %.200s", r.Status, b)
	}
	return b, err
}

// steady puts the pods in order: a kubelet lists them in any.
func (k kubelet) steady(b []byte) []byte {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return b
	}
	slices.SortFunc(list.Items, func(x, y json.RawMessage) int { return bytes.Compare(x, y) })
	return fmt.Append(nil, list.Items)
}

func (k kubelet) remove(pods ...string) error {
	var errs []error
	for _, p := range pods {
		errs = append(errs, os.Remove(filepath.Join(k.host, "etc/kubernetes/manifests", p+".yaml")))
	}
	return errors.Join(errs...)
}

func (k kubelet) left(string) []string {
	list, _ := filepath.Glob(filepath.Join(k.host, "var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/only-of-ended"))
	return list
}

// power is the host's to take: the node ends as it always does.
func (k kubelet) power() error { return nil }

// systemd: the manager of this machine.
type systemd struct{}

func (systemd) status() ([]byte, error) {
	return exec.Command("/usr/bin/systemctl", "show", "--all", "--timestamp=unix", "--", "pod-*").Output()
}

// steady leaves out units that fail again and again: they never settle.
func (systemd) steady(b []byte) []byte {
	var out []byte
	for unit := range bytes.SplitSeq(b, []byte("\n\n")) {
		var kept []byte
		again, up := false, false
		for line := range bytes.Lines(unit) {
			for _, p := range []string{"Id=", "ActiveState=", "SubState=", "Result=", "NRestarts=", "ExecMain", "MainPID="} {
				if bytes.HasPrefix(line, []byte(p)) {
					kept = append(append(kept, bytes.TrimSpace(line)...), '\n')
				}
			}
			if n, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("NRestarts=")); ok {
				again = string(n) != "0" && string(n) != "1"
			}
			up = up || bytes.HasPrefix(line, []byte("ActiveState=active")) || bytes.HasPrefix(line, []byte("ActiveState=inactive"))
		}
		if !again || up {
			out = append(out, kept...)
		}
	}
	return out
}

func (systemd) remove(pods ...string) error {
	args := []string{"stop", "--"}
	for _, p := range pods {
		args = append(args, "pod-default-"+p+".target")
	}
	out, err := exec.Command("/usr/bin/systemctl", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("systemctl stop: %w: %s", err, bytes.TrimSpace(out))
	}
	return err
}

func (systemd) left(pod string) []string {
	list, _ := filepath.Glob("/var/lib/garboard/pods/default_" + pod)
	// A user that was made though its number is somebody's, and got another.
	users, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(users)) {
		if f := strings.Split(line, ":"); len(f) > 2 && strings.HasPrefix(f[0], "pod-") && f[0] != "pod-"+f[2] {
			list = append(list, "user "+strings.TrimSpace(line))
		}
	}
	return list
}

func (systemd) power() error {
	unix.Sync()
	return exec.Command("/usr/bin/systemctl", "--no-block", "poweroff").Run()
}
