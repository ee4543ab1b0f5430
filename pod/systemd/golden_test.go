package systemd

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/pod"
	"garboard.local/pod/manifest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const manifests = "../testdata/manifests"

// outcome is what becomes of a file of manifests.
type outcome struct {
	plans    []*pod.Plan
	files    []pod.File
	explain  string
	refusals string
}

func convert(t *testing.T, file string, o pod.Options, m Options) outcome {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := manifest.Read(filepath.Base(file), b)
	if err != nil {
		t.Fatal(err)
	}
	o.Target, o.Objects = pod.Systemd, docs
	var out outcome
	var explain, refusals strings.Builder
	for _, d := range docs {
		if d.Pod == nil {
			continue
		}
		p, found, err := pod.Translate(d, o)
		for _, f := range found {
			fmt.Fprintf(&explain, "%d %s %s = %s\n    %s\n", f.Line, f.Verdict, f.Field, f.Value, f.Text)
		}
		if err != nil {
			fmt.Fprintln(&refusals, err)
			continue
		}
		files, err := Units(p, m)
		if err != nil {
			t.Fatal(err)
		}
		out.plans, out.files = append(out.plans, p), append(out.files, files...)
	}
	out.explain, out.refusals = explain.String(), refusals.String()
	return out
}

func (o outcome) String() string {
	var b strings.Builder
	b.WriteString(o.refusals)
	for _, f := range o.files {
		fmt.Fprintf(&b, "-- %s %04o --\n%s", f.Path, f.Mode, f.Content)
		if !bytes.HasSuffix(f.Content, []byte("\n")) {
			b.WriteString("\n")
		}
	}
	return b.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s is not what comes out (%v; go test ./pod/systemd -update writes it); got\n%s", file, err, got)
	}
}

func manifestFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	return files
}

func name(file string) string { return strings.TrimSuffix(filepath.Base(file), ".yaml") }

// Real manifests, and what becomes of each: units, or every reason why not.
func TestManifests(t *testing.T) {
	for _, f := range manifestFiles(t) {
		t.Run(name(f), func(t *testing.T) {
			o := convert(t, f, pod.Options{}, Options{})
			golden(t, "testdata/golden/"+name(f)+".units", o.String())
			golden(t, "testdata/golden/"+name(f)+".explain", o.explain)
		})
	}
}

// On an older systemd what it does not know is left out, and the target starts
// what an init container's first failure has kept from starting.
func TestOldSystemd(t *testing.T) {
	o := convert(t, manifests+"/multi.yaml", pod.Options{}, Options{Version: 252})
	s := o.String()
	for _, key := range []string{"RestartMode=", "RestartSteps=", "RestartMaxDelaySec="} {
		if strings.Contains(s, key) {
			t.Errorf("systemd 252 does not know %s", key)
		}
	}
	if !strings.Contains(s, "Upholds=pod-edge\\x2d1-shop.front\\x2dend-proxy.service\n") {
		t.Error("no Upholds=")
	}
	if _, err := Units(o.plans[0], Options{Version: 251}); err == nil {
		t.Error("systemd 251 is accepted")
	}
}
