package qemu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/pod"
	"garboard.local/pod/manifest"
	"garboard.local/pod/systemd"
	"garboard.local/qemu/observed"
)

const (
	observedDir     = "testdata/observed"
	observedKubelet = observedDir + "/kubelet.json"
	observedSystemd = observedDir + "/systemd.json"
	observedInit    = observedDir + "/init.json"
	observedPage    = "../docs/pod-observed.md"
	// endedPods are ended by the collector when all else has happened.
	endedPods = "work,sides"
	// controlPod has units that are spoilt.
	controlPod = "control"
	// nodeName ends the names of static pods (recipes/node.yaml).
	nodeName = "garboard"
)

// What there is to see before the pods are looked at, and after endedPod's end.
var (
	toHappen = []string{"work/main:stays:1", "work/side:stays:1", "plain/usual:stays:1", "plain/mighty:stays:1", "blocked/fails:exit:1", "control/fails:exit:1",
		"again/flaky:exit:2", "again/main:exit:3", "again/once:exit:1", "grace/polite:exit:1", "grace/stubborn:SIGTERM:1", "grace/hangs:exit:1", "grace/refused:exit:1",
		"crash/main:stays:4", "stuck/fails:exit:3", "sides/one:stays:1", "sides/two:stays:2", "sides/main:stays:1", "filter/main:stays:1",
		"probed/main:stays:2", "twin/a-b:exit:1", "twin-a/b:exit:1"}
	toEnd = []string{"work/main:exit:1", "work/side:exit:1", "sides/one:exit:1"}
)

// The same pods, under a kubelet and as units that a systemd runs, see and do the same,
// but for what is known and explained. Units that are wrong are seen to be. What the
// pods of a world see is kept from the last run that was found right: each must see
// the same again, and the long test has the kubelet's pods do so.
func TestVMSystemd(t *testing.T) {
	sameAgain(t, observedSystemd, underSystemd(t, AMD64, ""))
}

// The table of the worlds: docs/pod-observed.md.
func TestObservedPage(t *testing.T) {
	kubelet, systemd, init := keptFacts(t, observedKubelet), keptFacts(t, observedSystemd), keptFacts(t, observedInit)
	why := refusedByInit(t)
	rows := withoutControl(t, observed.Rows(kubelet, systemd, init, slices.Sorted(maps.Keys(why))))
	for _, w := range []observed.World{observed.Systemd, observed.Init} {
		unexplained, stale, err := observed.Explained(rows, observed.Known, w)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range unexplained {
			t.Errorf("%s: kubelet %s, %s %s: mend it or explain it (qemu/observed/known*.go)", r.Key, orAbsent(r.Kubelet), w, orAbsent(r.In(w)))
		}
		for _, d := range stale {
			t.Errorf("nothing differs any more in %q under %s: take the reason out of qemu/observed/known*.go", d.Keys, w)
		}
	}
	var page bytes.Buffer
	if err := observed.Write(&page, rows, observed.Known, why); err != nil {
		t.Fatal(err)
	}
	keepObserved(t, observedPage, page.Bytes())
}

// keptFacts are what the pods of a world saw in the last run that was found right.
func keptFacts(t *testing.T, file string) []observed.Fact {
	t.Helper()
	var facts []observed.Fact
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &facts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// sameAgain demands that a world's pods saw what they saw in the last run.
func sameAgain(t *testing.T, file string, now []observed.Fact) {
	t.Helper()
	fresh, err := json.MarshalIndent(now, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("GARBOARD_UPDATE") == "" {
		for _, r := range observed.Rows(keptFacts(t, file), now, nil, nil) {
			if r.Differs(observed.Systemd) {
				t.Errorf("%s: %s, was %s", r.Key, orAbsent(r.Systemd), orAbsent(r.Kubelet))
			}
		}
	}
	keepObserved(t, file, append(fresh, '\n'))
}

func TestVMLongSystemd(t *testing.T) {
	eachArch(t, func(t *testing.T, arch string) {
		t.Run("kubelet", func(t *testing.T) { sameAgain(t, observedKubelet, underKubelet(t, arch)) })
		t.Run("systemd", func(t *testing.T) { sameAgain(t, observedSystemd, underSystemd(t, arch, "")) })
	})
}

// underSystemd runs the units of the pods; images is a directory of unpacked images, or "".
func underSystemd(t *testing.T, arch, images string) []observed.Fact {
	plans := observedPlans(t, pod.Systemd, images)
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
	plans := observedPlans(t, pod.Systemd, "")
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

// withoutControl takes the rows of the spoilt pod out, in which the spoiling must be seen.
func withoutControl(t *testing.T, all []observed.Row) (rows []observed.Row) {
	t.Helper()
	caught := map[observed.World]map[string]bool{observed.Systemd: {}, observed.Init: {}}
	for _, r := range all {
		if name, what, _ := strings.Cut(r.Key, "/"); name == controlPod || strings.HasPrefix(r.Key, controlPod+": ") {
			for w := range caught {
				caught[w][what] = caught[w][what] || r.Differs(w)
			}
			continue
		}
		rows = append(rows, r)
	}
	for w, spoilt := range map[observed.World][]string{
		observed.Systemd: {"main: life", "main: state"},
		observed.Init:    {"main: life", "main: state", "fails: life", "fails: user, group, other groups"},
	} {
		for _, what := range spoilt {
			if !caught[w][what] {
				t.Errorf("negative control: what was spoilt for %s makes no difference in %q", w, controlPod+"/"+what)
			}
		}
	}
	return rows
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

// observedPlans are those of the pods that a target takes.
func observedPlans(t *testing.T, target pod.Target, images string) []*pod.Plan {
	t.Helper()
	plans, refused := translateObserved(t, target, images)
	for name, why := range refused {
		if target == pod.Systemd {
			t.Fatalf("pod %s: %s", name, why)
		}
	}
	return plans
}

// translateObserved is the plans of the pods, and of those that are refused why.
func translateObserved(t *testing.T, target pod.Target, images string) (plans []*pod.Plan, refused map[string]string) {
	t.Helper()
	files, err := filepath.Glob(observedDir + "/manifests/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	refused = map[string]string{}
	for _, f := range files {
		docs, err := manifest.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := pod.Translate(docs[0], pod.Options{Target: target, ObjectsDir: observedDir + "/objects", ImagesDir: images})
		if err != nil {
			refused[docs[0].Pod.Name] = strings.ReplaceAll(err.Error(), observedDir+"/manifests/", "")
			continue
		}
		plans = append(plans, p)
	}
	return plans, refused
}

// runObserved boots a machine until it has reported, and returns its observations.
func runObserved(t *testing.T, m Machine, kind string, status func(*observed.Report) map[string]*corev1.PodStatus, plans []*pod.Plan) []observed.Fact {
	t.Helper()
	m.Name += " " + kind
	wait := slices.DeleteFunc(slices.Clone(toHappen), func(event string) bool {
		name, _, _ := strings.Cut(event, "/")
		return !slices.ContainsFunc(plans, func(p *pod.Plan) bool { return p.Name == name }) // it is refused in this world
	})
	m.Cmdline += fmt.Sprintf(" observed.wait=%s observed.end=%s observed.gone=%s", strings.Join(wait, ","), endedPods, strings.Join(toEnd, ","))
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
		switch kind {
		case "systemd":
			exit, err := b.ends(endCeiling)
			if err != nil {
				return err
			}
			if exit.Panicked || exit.Err != nil || !exit.GuestShutdown {
				return b.Console.Failure(nil, "the machine ended by %+v, want its own power-off", exit)
			}
		default:
			if kind == "kubelet" { // where PID 1 runs the pods it ends them with the node
				if err := b.PowerButton(b.ctx); err != nil {
					return err
				}
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
