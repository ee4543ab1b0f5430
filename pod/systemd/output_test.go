package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"garboard.local/pod"
	"garboard.local/pod/manifest"
)

func podFiles(t *testing.T, text string) ([]*pod.Plan, []pod.File) {
	t.Helper()
	docs, err := manifest.Read("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var plans []*pod.Plan
	var files []pod.File
	for _, d := range docs {
		if d.Pod == nil {
			continue
		}
		p, _, err := pod.Translate(d, pod.Options{Target: pod.Systemd, Objects: docs})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Units(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		plans, files = append(plans, p), append(files, f...)
	}
	return plans, files
}

const one = `apiVersion: v1
kind: Pod
metadata: {name: one, namespace: ns}
spec:
  containers:
    - {name: a, command: [/a], env: [{name: P, valueFrom: {secretKeyRef: {name: s, key: k}}}]}
    - {name: b, command: [/b]}
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: ns}
stringData: {k: value}
`

const two = "apiVersion: v1\nkind: Pod\nmetadata: {name: two, namespace: ns}\nspec: {containers: [{name: a, command: [/a]}]}\n"

func paths(changes []Change) (written, removed []string) {
	for _, c := range changes {
		if c.Removed {
			removed = append(removed, filepath.Base(c.Path))
		} else {
			written = append(written, filepath.Base(c.Path))
		}
	}
	return written, removed
}

func write(t *testing.T, root, text string, prune bool) (written, removed []string) {
	t.Helper()
	plans, files := podFiles(t, text)
	changes, err := Write(root, plans, files, prune)
	if err != nil {
		t.Fatal(err)
	}
	return paths(changes)
}

// A changed manifest changes its units, and what it no longer has is removed;
// other pods and other people's units are left alone.
func TestWrite(t *testing.T) {
	root := t.TempDir()
	others := filepath.Join(root, UnitDir, "pod-of-somebody.service")
	if err := os.MkdirAll(filepath.Dir(others), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(others, []byte("[Service]\nExecStart=/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, _ := write(t, root, one, false)
	if len(all) != 9 {
		t.Errorf("written %q", all)
	}
	if again, removed := write(t, root, one, false); len(again)+len(removed) != 0 {
		t.Errorf("the same again writes %q, removes %q", again, removed)
	}
	write(t, root, two, false)
	changed := strings.Replace(one, "    - {name: b, command: [/b]}\n", "", 1)
	changed = strings.Replace(changed, ", env: [{name: P, valueFrom: {secretKeyRef: {name: s, key: k}}}]", "", 1)
	written, removed := write(t, root, changed, false)
	if want := []string{"pod-ns-one-a.service", "pod-ns-one.target"}; !slices.Equal(written, want) {
		t.Errorf("written %q, want %q", written, want)
	}
	if want := []string{"a.env", "pod-ns-one-b.service"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	// Enabled, then pruned: nothing that could start it is left.
	wants := filepath.Join(root, UnitDir, "multi-user.target.wants")
	if err := os.Mkdir(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(UnitDir, "pod-ns-one.target"), filepath.Join(wants, "pod-ns-one.target")); err != nil {
		t.Fatal(err)
	}
	_, removed = write(t, root, two, true)
	if !slices.Contains(removed, "pod-ns-one.target") || slices.Contains(removed, "pod-of-somebody.service") || slices.Contains(removed, "pod-ns-two.target") {
		t.Errorf("removed %q", removed)
	}
	if left, err := os.ReadDir(wants); err != nil || len(left) != 0 {
		t.Errorf("left enabled: %v %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(root, pod.DataDir, "ns_one")); !os.IsNotExist(err) {
		t.Errorf("the pod's directory is still there: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Error(err)
	}
}

// Secrets are for root alone, whatever the umask and whatever was there before.
func TestSecretsArePrivate(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, pod.DataDir, "ns_one")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.env"), []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	write(t, root, one, false)
	for p, want := range map[string]os.FileMode{dir: 0o700, dir + "/a.env": 0o600} {
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", p, fi.Mode(), err, want)
		}
	}
	err := filepath.WalkDir(filepath.Join(root, UnitDir), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if strings.Contains(string(b), "value") {
			t.Errorf("%s holds the secret", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOwner(t *testing.T) {
	for content, want := range map[string]string{
		"[X-Garboard]\nPod=a/b\n\n[Unit]\n":                               "a/b",
		"[X-Garboard]\nPod=a/b\nAnnotation=" + strings.Repeat("x", 10000): "a/b",
		"[Unit]\nPod=a/b\n": "", "": "", "\n\n\n": "", "[X-Garboard]\nName=a\nPod=b\n": "", "[X-Garboard]": "",
	} {
		if got := Owner([]byte(content)); got != want {
			t.Errorf("%.40q belongs to %q, want %q", content, got, want)
		}
	}
}

func FuzzOwner(f *testing.F) {
	f.Add([]byte("[X-Garboard]\nPod=a/b\n"))
	f.Add([]byte("[\n\\\n"))
	f.Fuzz(func(t *testing.T, b []byte) { Owner(b) })
}
