package qemu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	disks "garboard.local/builder/image"
	"garboard.local/builder/rootfs"
	"garboard.local/pod"
	"garboard.local/pod/manifest"
	"garboard.local/pod/systemd"
	"garboard.local/qemu/observed"
)

const (
	observedDir     = "testdata/observed"
	observedKubelet = "testdata/observed/kubelet.json"
	observedPage    = "../docs/pod-observed.md"
	// endedPod is ended by the collector when all else has happened.
	endedPod = "work"
	// controlPod has units that are spoilt.
	controlPod = "control"
	// nodeName ends the names of static pods (recipes/node.yaml).
	nodeName = "garboard"
)

// What there is to see before the pods are looked at, and after endedPod's end.
var (
	toHappen = []string{"work/main:stays:1", "work/side:stays:1", "plain/usual:stays:1", "plain/mighty:stays:1", "blocked/fails:exit:1", "control/fails:exit:1",
		"again/flaky:exit:2", "again/main:exit:3", "again/once:exit:1", "grace/polite:exit:1", "grace/stubborn:SIGTERM:1", "probed/main:stays:2", "twin/a-b:exit:1", "twin-a/b:exit:1"}
	toEnd = []string{"work/main:exit:1", "work/side:exit:1"}
)

// The same pods, under a kubelet and as units that a systemd runs, see and do the same,
// but for what is known and explained; docs/pod-observed.md is the table. Units that are
// wrong are seen to be. What the kubelet's pods see is kept from the last run of the
// long test, which runs both.
func TestVMSystemd(t *testing.T) {
	compareWorlds(t, keptKubelet(t), underSystemd(t, AMD64, ""))
}

// keptKubelet is what the kubelet's pods saw in the last run of the long test.
func keptKubelet(t *testing.T) []observed.Fact {
	t.Helper()
	var kubelet []observed.Fact
	b, err := os.ReadFile(observedKubelet)
	if err == nil {
		err = json.Unmarshal(b, &kubelet)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kubelet
}

func TestVMLongSystemd(t *testing.T) { eachArch(t, bothWorlds) }

func bothWorlds(t *testing.T, arch string) {
	kubelet := underKubelet(t, arch)
	fresh, err := json.MarshalIndent(kubelet, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	keepObserved(t, observedKubelet, append(fresh, '\n'))
	compareWorlds(t, kubelet, underSystemd(t, arch, ""))
}

// underSystemd runs the units of the pods; images is a directory of unpacked images, or "".
func underSystemd(t *testing.T, arch, images string) []observed.Fact {
	plans := observedPlans(t, images)
	return runObserved(t, withUnits(t, testMachine(t, "systemd-"+arch), plans, images), "systemd", func(r *observed.Report) map[string]*corev1.PodStatus {
		out := map[string]*corev1.PodStatus{}
		for _, p := range plans {
			s, err := systemd.Status(p, strings.NewReader(r.Status))
			if err != nil {
				t.Fatal(err)
			}
			out[p.Name] = &s.Status
		}
		return out
	}, plans)
}

func underKubelet(t *testing.T, arch string) []observed.Fact {
	plans := observedPlans(t, "")
	return runObserved(t, testMachine(t, "observed-"+arch), "kubelet", func(r *observed.Report) map[string]*corev1.PodStatus {
		var list corev1.PodList
		if err := json.Unmarshal([]byte(r.Status), &list); err != nil {
			t.Fatalf("the kubelet's list of pods: %v: %.200s", err, r.Status)
		}
		out := map[string]*corev1.PodStatus{}
		for i, p := range list.Items {
			out[strings.TrimSuffix(p.Name, "-"+nodeName)] = &list.Items[i].Status
		}
		return out
	}, plans)
}

// compareWorlds judges the table of two worlds.
func compareWorlds(t *testing.T, kubelet, systemd []observed.Fact) {
	judgeObserved(t, withoutControl(t, observed.Rows(kubelet, systemd)))
}

// withoutControl takes the rows of the spoilt pod out, in which the spoiling must be seen.
func withoutControl(t *testing.T, all []observed.Row) (rows []observed.Row) {
	t.Helper()
	caught := map[string]bool{}
	for _, r := range all {
		if name, what, _ := strings.Cut(r.Key, "/"); name == controlPod || strings.HasPrefix(r.Key, controlPod+": ") {
			caught[what] = caught[what] || r.Differs()
			continue
		}
		rows = append(rows, r)
	}
	for _, what := range []string{"main: life", "main: state"} {
		if !caught[what] {
			t.Errorf("negative control: a spoilt unit makes no difference in %q", controlPod+"/"+what)
		}
	}
	return rows
}

func judgeObserved(t *testing.T, rows []observed.Row) {
	unexplained, stale, err := observed.Explained(rows, observed.Known)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range unexplained {
		t.Errorf("%s: kubelet %s, systemd %s: mend it or explain it (qemu/observed/known.go)", r.Key, orAbsent(r.Kubelet), orAbsent(r.Systemd))
	}
	for _, d := range stale {
		t.Errorf("nothing differs any more in %q: take the reason out of qemu/observed/known.go", d.Keys)
	}
	var page bytes.Buffer
	if err := observed.Write(&page, rows, observed.Known); err != nil {
		t.Fatal(err)
	}
	keepObserved(t, observedPage, page.Bytes())
}

// keepObserved demands that a committed file is what was observed now, or writes it.
func keepObserved(t *testing.T, file string, now []byte) {
	t.Helper()
	if os.Getenv("GARBOARD_UPDATE") != "" {
		if err := os.WriteFile(file, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, now) {
		fresh := filepath.Join(t.ArtifactDir(), filepath.Base(file))
		t.Errorf("%s is not what was observed (%v); GARBOARD_UPDATE=1 writes it anew; it would be %s (%v)", file, err, fresh, os.WriteFile(fresh, now, 0o644))
	}
}

func orAbsent(s string) string {
	if s == "" {
		return "(not there)"
	}
	return s
}

func observedPlans(t *testing.T, images string) []*pod.Plan {
	t.Helper()
	files, err := filepath.Glob(observedDir + "/manifests/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	var plans []*pod.Plan
	for _, f := range files {
		docs, err := manifest.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := pod.Translate(docs[0], pod.Options{Target: pod.Systemd, ObjectsDir: observedDir + "/objects", ImagesDir: images})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, p)
	}
	return plans
}

// collectorUnit prints the report to the console and powers off.
const collectorUnit = `[Unit]
Description=Prints what the pods saw
[Service]
Type=exec
ExecStart=/observer collect -of systemd -from /var/lib/observed
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
`

// The root directory of an initramfs is everybody's to write to; a machine's is not.
const (
	rootUnit = `[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/usr/bin/systemd-tmpfiles --create /etc/root.conf
`
	rootConf = "z / 0755 root root\n"
)

// withUnits lays the units of the pods over the machine's initramfs, as convert
// writes them, enabled as systemctl enable would; those of controlPod are spoilt.
func withUnits(t *testing.T, m Machine, plans []*pod.Plan, images string) Machine {
	t.Helper()
	dir := t.TempDir()
	var files []pod.File
	for _, p := range plans {
		u, err := systemd.Units(p, systemd.Options{})
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, u...)
	}
	if _, err := systemd.Write(dir, plans, files, false); err != nil {
		t.Fatal(err)
	}
	spoil(t, filepath.Join(dir, systemd.UnitDir, "pod-default-"+controlPod+"-main.service"))
	tree := rootfs.New()
	lay := func(dir, at string) error {
		return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := d.Info()
			if err != nil {
				return err
			}
			to := at + strings.TrimPrefix(p, dir)
			switch mode := uint32(fi.Mode().Perm()); {
			case d.IsDir() && mode == 0o700: // closed, as the machine has it
				return tree.Add(rootfs.Entry{Path: to, Kind: rootfs.Dir, Mode: mode, Origin: "convert", Reason: "test"})
			case !fi.Mode().IsRegular(): // other directories are made as needed; links are for who converts
				return nil
			default:
				b, err := os.ReadFile(p)
				return errors.Join(err, tree.Add(rootfs.FromBytes(to, mode, b, "convert", "test")))
			}
		})
	}
	err := lay(dir, "")
	extra := map[string]string{"/etc/root.conf": rootConf, systemd.UnitDir + "/root.service": rootUnit, systemd.UnitDir + "/collector.service": collectorUnit}
	if images != "" {
		module, rerr := os.ReadFile(filepath.Join(filepath.Dir(m.Initrd), "overlay.ko"))
		if rerr != nil {
			t.Fatalf("%v: %s", rerr, buildFirst)
		}
		extra["/overlay.ko"], extra[systemd.UnitDir+"/overlay.service"] = string(module), overlayUnit
		err = errors.Join(err, lay(images, images))
	}
	enable := func(unit, by string) error {
		return tree.Add(rootfs.Entry{Path: systemd.UnitDir + "/" + by + ".wants/" + unit, Kind: rootfs.Symlink, Mode: 0o777, Link: "../" + unit, Origin: "test", Reason: "enabled"})
	}
	for path, content := range extra {
		err = errors.Join(err, tree.Add(rootfs.FromBytes(path, 0o644, []byte(content), "test", "test")))
	}
	err = errors.Join(err, enable("root.service", "sysinit.target"), enable("collector.service", "multi-user.target"))
	if images != "" {
		err = errors.Join(err, enable("overlay.service", "sysinit.target"))
	}
	for _, p := range plans {
		err = errors.Join(err, enable(systemd.Target(p), "multi-user.target"))
	}
	b, rerr := os.ReadFile(m.Initrd)
	if rerr != nil {
		t.Fatalf("%v: %s", rerr, buildFirst)
	}
	out := bytes.NewBuffer(b)
	err = errors.Join(err, disks.WriteCPIO(out, tree, time.Unix(0, 0)))
	m.Initrd = filepath.Join(t.TempDir(), "initramfs.img")
	if err := errors.Join(err, os.WriteFile(m.Initrd, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	m.MemoryMiB = 1024
	return m
}

// spoil has the unit of a container behind a failed init container not require that.
func spoil(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const before, after = "Requires=pod-default-control.service pod-default-control-fails.service\n", "Requires=pod-default-control.service\n"
	if !strings.Contains(string(b), before) {
		t.Fatalf("%s has no %q to spoil:\n%s", file, before, b)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), before, after, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runObserved boots a machine until it has reported, and returns its observations.
func runObserved(t *testing.T, m Machine, kind string, status func(*observed.Report) map[string]*corev1.PodStatus, plans []*pod.Plan) []observed.Fact {
	t.Helper()
	m.Name += " " + kind
	m.Cmdline += fmt.Sprintf(" observed.wait=%s observed.end=%s observed.gone=%s", strings.Join(toHappen, ","), endedPod, strings.Join(toEnd, ","))
	var report *observed.Report
	runBoot(t, m, "observed-"+kind, bootLimit, func(b *boot) error {
		began := time.Now()
		first, err := b.sees(observed.Prefix+b.nonce+` 1/(\d+) `, 5*time.Minute)
		if err != nil {
			return err
		}
		t.Logf("%s: report after %s", kind, time.Since(began).Round(time.Second))
		if last := first.Groups[1]; last != "1" {
			if _, err := b.sees(observed.Prefix+b.nonce+" "+last+"/"+last+" ", time.Minute); err != nil {
				return err
			}
		}
		if kind == "systemd" {
			exit, err := b.ends(endCeiling)
			if err != nil {
				return err
			}
			if exit.Panicked || exit.Err != nil || !exit.GuestShutdown {
				return b.Console.Failure(nil, "the machine ended by %+v, want its own power-off", exit)
			}
		} else {
			if err := b.PowerButton(b.ctx); err != nil {
				return err
			}
			if _, err := b.sees(`^garboard: shutdown: clean$`, endCeiling); err != nil {
				return err
			}
			if _, err := b.ends(endCeiling); err != nil {
				return err
			}
		}
		var lines []string
		for _, l := range b.Console.Lines() {
			lines = append(lines, l.Text)
		}
		if report, err = observed.Read(lines, b.nonce); err != nil {
			return b.Console.Failure(err, "report")
		}
		kept, err := json.MarshalIndent(report, "", " ")
		return errors.Join(err, os.WriteFile(filepath.Join(t.ArtifactDir(), "report-"+kind+".json"), kept, 0o644))
	})
	for _, e := range report.Troubles {
		t.Errorf("the collector of %s: %s", m.Name, e)
	}
	if len(report.Left) > 0 {
		t.Errorf("%s: of the ended pod are left %q", m.Name, report.Left)
	}
	all := status(report)
	var pods []observed.Pod
	for _, p := range plans {
		pods = append(pods, observed.Pod{Spec: p.Document.Pod, Status: all[p.Name]})
	}
	return observed.Facts(report, pods)
}
