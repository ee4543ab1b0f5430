package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unpacked is a directory of images with one, as it is on a machine.
func unpacked(t *testing.T, image, config string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	d := filepath.Join(dir, "machine", ImageDir(image))
	if err := os.MkdirAll(d+"/rootfs/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(d, "rootfs", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(d+"/config.json", []byte(`{"config": `+config+`}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:100:101:app:/srv/app:/bin/sh\n"
	group  = "root:x:0:\nwheel:x:10:root,app\nweb:x:33:app\napp:x:101:\n"
)

// Who the process is, by the image's own files where the manifest is silent: as a
// container runtime has it.
func TestImageUsers(t *testing.T) {
	files := map[string]string{"etc/passwd": passwd, "etc/group": group}
	for _, c := range []struct{ name, config, spec, container, want string }{
		{"nobody said", `{}`, "", "", ": [] /root"},
		{"by name", `{"User": "app"}`, "", "", "100:101 [10 33] /srv/app"},
		{"by name, no groups", `{"User": "app"}`, "  securityContext: {supplementalGroupsPolicy: Strict}", "", "100:101 [] /srv/app"},
		{"with a group", `{"User": "app:web"}`, "", "", "100:33 [] /srv/app"},
		{"number that is somebody's", `{"User": "100"}`, "", "", "100:101 [10 33] /srv/app"},
		{"number that is nobody's", `{"User": "7"}`, "", "", "7:0 [] /"},
		{"the manifest's", `{"User": "app"}`, "  securityContext: {runAsUser: 7, supplementalGroups: [5]}", "", "7:0 [5] /"},
		{"the manifest's group", `{"User": "app"}`, "  securityContext: {runAsGroup: 9}", "", "100:9 [10 33] /srv/app"},
		{"the manifest's, of the image's files", `{}`, "  securityContext: {runAsUser: 100}", "", "100:101 [10 33] /srv/app"},
		{"root", `{"User": "root"}`, "", "", "0:0 [] /root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := podOf(c.spec, "    image: a\n"+c.container)
			p, err := translate(t, text, Options{Target: Systemd, ImagesDir: "/", ImagesRoot: unpacked(t, "a", c.config, files) + "/machine"})
			if err != nil {
				t.Fatal(err)
			}
			s := p.Services[0]
			if got := fmt.Sprintf("%s:%s %v %s", s.User, s.Group, s.Groups, s.Home); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if s.Root != "/a/rootfs" {
				t.Errorf("root %q is not the machine's path", s.Root)
			}
		})
	}
}

func TestImageRefusals(t *testing.T) {
	for _, c := range []struct{ name, config, container, want string }{
		{"user that is not there", `{"User": "nosuch"}`, "", `its user "nosuch"`},
		{"signal that is none", `{"StopSignal": "FOO BAR"}`, "", `StopSignal "FOO BAR" is no signal`},
		{"root where root may not be", `{"User": "root"}`, "    securityContext: {runAsNonRoot: true}", "would run as root"},
		{"no configuration", ``, "", "its configuration is needed"},
	} {
		dir := unpacked(t, "a", c.config, map[string]string{"etc/passwd": passwd})
		text := podOf("", "    image: a\n"+c.container)
		if _, err := translate(t, text, Options{Target: Systemd, ImagesDir: dir + "/machine"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
	// An image's own files are read inside of it.
	dir := unpacked(t, "a", `{"User": "app"}`, nil)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "machine/a/rootfs/etc/passwd")); err != nil {
		t.Fatal(err)
	}
	if _, err := translate(t, podOf("", "    image: a"), Options{Target: Systemd, ImagesDir: dir + "/machine"}); err == nil || !strings.Contains(err.Error(), "its /etc/passwd cannot be read") {
		t.Errorf("a link out of the image: %v", err)
	}
}

// Signals in all the ways images write them.
func TestImageSignals(t *testing.T) {
	for in, want := range map[string]string{"SIGQUIT": "SIGQUIT", "term": "SIGTERM", "3": "3", "SIGRTMIN+3": "SIGRTMIN+3", "0": "", "65": "", "a b": ""} {
		if got := signalName(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	for container, want := range map[string]string{"": "SIGQUIT", "    lifecycle: {stopSignal: SIGINT}": "SIGINT"} {
		p, err := translate(t, podOf("  os: {name: linux}", "    image: a\n"+container), Options{Target: Systemd, ImagesDir: unpacked(t, "a", `{"StopSignal": "SIGQUIT"}`, nil) + "/machine"})
		if err != nil || p.Services[0].StopSignal != want {
			t.Errorf("%q: %v, want %s", container, err, want)
		}
	}
}

// A link that convert made is followed once: the unit names one image, not what will
// have its name.
func TestImageByDigest(t *testing.T) {
	dir := unpacked(t, ".sha256-1", `{}`, nil)
	if err := os.Rename(filepath.Join(dir, "machine", ImageDir(".sha256-1")), filepath.Join(dir, "machine/.sha256-1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".sha256-1", filepath.Join(dir, "machine/a")); err != nil {
		t.Fatal(err)
	}
	p, err := translate(t, podOf("", "    image: a"), Options{Target: Systemd, ImagesDir: "/machine", ImagesRoot: dir})
	if err != nil || p.Services[0].Root != "/machine/.sha256-1/rootfs" {
		t.Errorf("root %q, %v", p.Services[0].Root, err)
	}
}
