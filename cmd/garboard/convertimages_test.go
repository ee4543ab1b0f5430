package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"garboard.local/builder/source/oci/ocitest"
)

// runs runs a command line.
func runs(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, diag bytes.Buffer
	root := newRoot()
	root.SetArgs(append(args, "--quiet"))
	root.SetOut(&out)
	root.SetErr(&diag)
	err = root.ExecuteContext(t.Context())
	return out.String(), diag.String(), err
}

func appImage(t *testing.T, arch, content string) v1.Image {
	t.Helper()
	img := ocitest.Image(arch, ocitest.Tar(map[string][]byte{"app": []byte(content), "etc/passwd": []byte("app:x:100:101:app:/srv:/bin/sh\n")}))
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.Config = v1.Config{Entrypoint: []string{"/app"}, Cmd: []string{"by", "default"}, User: "app", WorkingDir: "/srv", Env: []string{"FROM=image"}, StopSignal: "SIGQUIT"}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	return img
}

func podFile(t *testing.T, image, more string) string {
	t.Helper()
	f := filepath.Join(t.TempDir(), "p.yaml")
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n    - {name: c, image: " + image + more + "}\n"
	if err := os.WriteFile(f, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

func unitOf(t *testing.T, machine string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(machine, "etc/systemd/system/pod-default-p-c.service"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// imageOf is the root directory of the container's image.
func imageOf(t *testing.T, machine string) string {
	t.Helper()
	mounts, err := filepath.Glob(filepath.Join(machine, "etc/systemd/system/*.mount"))
	if err != nil || len(mounts) != 1 {
		t.Fatalf("mounts %q, %v", mounts, err)
	}
	b, err := os.ReadFile(mounts[0])
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(string(b), "Options=lowerdir=")
	at, _, _ = strings.Cut(at, ",")
	return at
}

// An image out of a layout becomes a root directory, and the unit has from its
// configuration what the manifest does not say. The same image again is nothing to do.
func TestConvertUnpacks(t *testing.T) {
	layoutDir, machine := filepath.Join(t.TempDir(), "layout"), t.TempDir()
	if err := ocitest.Layout(layoutDir, ocitest.Index(appImage(t, "amd64", "one"), appImage(t, "arm64", "other"))); err != nil {
		t.Fatal(err)
	}
	const image = "localhost/app:1"
	args := []string{"convert", podFile(t, image, ""), "--output", machine, "--images", "/srv/images", "--image", image + "=oci:" + layoutDir, "--arch", "arm64"}
	_, said, err := runs(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	unit := unitOf(t, machine)
	for _, want := range []string{"\nExecStart=:/app by default\n", "\nUser=100\n", "\nGroup=101\n", "\nWorkingDirectory=/srv\n", "\nEnvironment=FROM=image\n", "\nKillSignal=SIGQUIT\n", "\nEnvironment=HOME=/srv\n", "\nRootDirectory=/run/garboard/pods/default_p/.root-c\n"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit has no %q:\n%s", want, unit)
		}
	}
	at := imageOf(t, machine)
	if b, err := os.ReadFile(filepath.Join(machine, at, "app")); err != nil || string(b) != "other" {
		t.Errorf("the program is %q, %v", b, err)
	}
	if !strings.Contains(said, "written "+strings.TrimSuffix(at, "/rootfs")+"\n") {
		t.Errorf("said: %s", said)
	}
	if _, said, err = runs(t, args...); err != nil || strings.Contains(said, "written") {
		t.Errorf("again: %q %v", said, err)
	}

	// Another image under the name: the unit changes with it, and the old one goes when asked.
	if err := ocitest.Layout(layoutDir, ocitest.Index(appImage(t, "arm64", "new"))); err != nil {
		t.Fatal(err)
	}
	out, _, err := runs(t, append(args, "--prune", "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	var changes []changed
	if err := json.Unmarshal([]byte(out), &changes); err != nil {
		t.Fatal(err)
	}
	what := map[string]bool{}
	for _, c := range changes {
		key := filepath.Base(c.Path)
		if strings.HasPrefix(key, ".sha256-") {
			key = ".sha256-"
		}
		what[key+map[bool]string{true: " removed"}[c.Removed]] = true
		if c.Image != "" && (c.Image != image || !strings.HasPrefix(c.Digest, "sha256:")) {
			t.Errorf("change %+v", c)
		}
	}
	if !what[".sha256-"] || !what[".sha256- removed"] || len(changes) != 3 {
		t.Errorf("changes are %+v", changes)
	}
	if _, err := os.Stat(filepath.Join(machine, at)); !os.IsNotExist(err) {
		t.Errorf("the old image is still there: %v", err)
	}
}

// Of several images in one place the one that the manifest names is taken.
func TestConvertChooses(t *testing.T) {
	save, machine := filepath.Join(t.TempDir(), "save.tar"), t.TempDir()
	if err := ocitest.Saved(save, map[string]v1.Image{"localhost/app:1": appImage(t, "arm64", "one"), "localhost/app:2": appImage(t, "arm64", "two")}); err != nil {
		t.Fatal(err)
	}
	convert := func(image string) error {
		_, _, err := runs(t, "convert", podFile(t, image, ""), "--output", machine, "--images", "/srv/images", "--image", image+"=docker-archive:"+save, "--arch", "arm64")
		return err
	}
	if err := convert("localhost/app:2"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(machine, imageOf(t, machine), "app")); err != nil || string(b) != "two" {
		t.Errorf("the program is %q, %v", b, err)
	}
	if err := convert("localhost/app:3"); err == nil || !strings.Contains(err.Error(), "or take one by its name, as docker-archive:"+save+":NAME") {
		t.Errorf("none of the name: %v", err)
	}
}

// From a registry by the imagePullPolicy: always where the tag may move, else only what
// is missing, and never where the manifest says so.
func TestConvertPulls(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	host := strings.TrimPrefix(server.URL, "http://")
	defer server.Close()
	push := func(tag, content string) {
		t.Helper()
		ref, err := name.ParseReference(host + "/app:" + tag)
		if err == nil {
			err = remote.WriteIndex(ref, ocitest.Index(appImage(t, "amd64", content), appImage(t, "arm64", content+" arm")))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	machine := t.TempDir()
	program := func() string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(machine, imageOf(t, machine), "app"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	convert := func(image, more string, flags ...string) error {
		_, _, err := runs(t, append([]string{"convert", podFile(t, image, more), "--output", machine, "--images", "/images", "--arch", "amd64"}, flags...)...)
		return err
	}
	push("1", "first")
	push("latest", "first")
	if err := convert(host+"/app:1", ""); err == nil || !strings.Contains(err.Error(), "--pull unpack images") {
		t.Errorf("nothing is fetched unasked: %v", err)
	}
	for _, c := range []struct{ image, more, want string }{
		{host + "/app:1", "", "first"}, {host + "/app", "", "first"},
	} {
		if err := convert(c.image, c.more, "--pull"); err != nil || program() != c.want {
			t.Errorf("%+v: %v %s", c, err, program())
		}
	}
	push("1", "second")
	push("latest", "second")
	for _, c := range []struct{ image, more, want string }{
		{host + "/app:1", "", "first"}, {host + "/app:1", ", imagePullPolicy: Always", "second"}, {host + "/app", ", imagePullPolicy: IfNotPresent", "first"}, {host + "/app", "", "second"},
	} {
		if err := convert(c.image, c.more, "--pull"); err != nil || program() != c.want {
			t.Errorf("%+v: %v %s", c, err, program())
		}
	}
	push("2", "third")
	if err := convert(host+"/app:2", ", imagePullPolicy: Never", "--pull"); err == nil || !strings.Contains(err.Error(), "imagePullPolicy Never") {
		t.Errorf("never: %v", err)
	}
	if err := convert(host+"/app:nosuch", "", "--pull"); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("no such tag: %v", err)
	}
	if err := convert(host+"/app:2", "", "--pull", "--image-limit", "1"); err == nil || !strings.Contains(err.Error(), "--image-limit allows more") {
		t.Errorf("limit: %v", err)
	}
	// What is wrong with the manifest is said before anything is fetched.
	if err := convert(host+"/app:2", ", tty: true", "--pull"); err == nil || !strings.Contains(err.Error(), "not to a terminal") {
		t.Errorf("a manifest that is refused: %v", err)
	}
	if _, err := os.Stat(filepath.Join(machine, "images", strings.ReplaceAll(strings.ReplaceAll(host+"/app:2", ":", "+3a"), "/", "+2f"))); !os.IsNotExist(err) {
		t.Errorf("its image was unpacked: %v", err)
	}
}

// Wrong command lines have status 2 and a cure.
func TestConvertImageFlags(t *testing.T) {
	p := podFile(t, "a", "")
	for args, want := range map[string]string{
		"--pull":                                               "need --images",
		"--pull --images /i":                                   "need --output",
		"--pull --images /i --explain":                         "goes with --to systemd and --output alone",
		"--pull --images /i --output o --arch all":             "known are amd64 and arm64",
		"--pull --images /i --output o --image-limit much":     "is not a size",
		"--images /i --output o --image a":                     "write it as NAME=PLACE",
		"--images /i --output o --image b=oci:x":               `no container has the image "b"; they have a`,
		"--images /i --output o --image a=oci:x --image a=x:y": "was given already",
	} {
		_, _, err := runs(t, append([]string{"convert", p}, strings.Fields(strings.ReplaceAll(args, "output o", "output "+t.TempDir()))...)...)
		if usage := new(usageError); !errors.As(err, usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want a usage error that says %q", args, err, want)
		}
	}
}
