package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestReleaseWorkflowRunsTheScript: what the service does is what can be done anywhere.
func TestReleaseWorkflowRunsTheScript(t *testing.T) {
	b, err := os.ReadFile("../../.github/workflows/release.yml")
	if err != nil {
		t.Fatal(err)
	}
	var w struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Permissions map[string]string
			Needs       string
			Steps       []struct {
				Uses, Run string
				Env       map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(b, &w); err != nil {
		t.Fatal(err)
	}
	build := w.Jobs["build"]
	found := false
	for _, s := range build.Steps {
		if s.Run != ".ci/release" {
			continue
		}
		found = true
		for _, name := range []string{keyEnv, passphraseEnv} {
			if s.Env[name] != "${{ secrets."+name+" }}" {
				t.Errorf("%s is %q, want the secret of that name", name, s.Env[name])
			}
		}
	}
	if fi, err := os.Stat("../../.ci/release"); !found || err != nil || fi.Mode()&0o111 == 0 {
		t.Errorf("the job build does not run .ci/release, or that cannot be run (%v)", err)
	}
	if w.Permissions["contents"] != "read" || len(build.Permissions) > 0 || w.Jobs["publish"].Needs != "build" {
		t.Error("what builds may write to the repository, or what publishes does not wait for it")
	}
}

// TestSigningKey: the file goes before the environment, and no key is no error.
func TestSigningKey(t *testing.T) {
	t.Setenv(passphraseEnv, "")
	t.Setenv(keyEnv, "")
	if k, err := signingKey(""); k != nil || err != nil {
		t.Errorf("no key: %v, %v", k, err)
	}
	t.Setenv(keyEnv, "not a key")
	if _, err := signingKey(""); err == nil || !strings.Contains(err.Error(), "$"+keyEnv) {
		t.Errorf("no key in the environment: %v", err)
	}
	if v := os.Getenv(keyEnv); v != "" {
		t.Errorf("compilers and tools would inherit $%s", keyEnv)
	}
	file := filepath.Join(t.TempDir(), "key.asc")
	if _, err := signingKey(file); err == nil || !strings.Contains(err.Error(), "key.asc") {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte("nor this"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := signingKey(file); err == nil || !strings.Contains(err.Error(), "key.asc") || strings.Contains(err.Error(), keyEnv) {
		t.Errorf("no key in the file: %v", err)
	}
}

// TestReleaseFailsBeforeItBuilds: nothing is built for a release that cannot be written.
func TestReleaseFailsBeforeItBuilds(t *testing.T) {
	root := t.TempDir()
	t.Setenv("GARBOARD_CACHE", filepath.Join(root, "cache"))
	t.Setenv(keyEnv, "")
	for name, body := range map[string]string{"a.yaml": "name: same\nkernel: {package: x}\noutputs: [initramfs]\n", "b.yaml": "name: same\nkernel: {package: x}\noutputs: [initramfs]\n", "thesis.tex": "x", "key.asc": "x"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) int { return Main(slices.Concat([]string{"-C", root, "-q", "release"}, args)) }
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--key", filepath.Join(root, "missing.asc")}, exitFailed},
		{[]string{"--key", filepath.Join(root, "key.asc")}, exitFailed},
		{[]string{"--output", root}, exitFailed},
		{[]string{"--output", filepath.Join(root, "dist"), "--arch", "vax"}, exitUsage},
		{[]string{"--output", filepath.Join(root, "dist"), "--recipe", filepath.Join(root, "a.yaml"), "--recipe", filepath.Join(root, "b.yaml")}, exitUsage},
		{[]string{"surplus"}, exitUsage},
	} {
		if got := run(c.args...); got != c.want {
			t.Errorf("%q: exit status %d, want %d", c.args, got, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "dist")); err == nil {
		t.Error("something was written")
	}
}
