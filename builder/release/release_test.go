package release

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"garboard.local/builder/report"
)

// built are the outputs of a small fake build.
func built(t *testing.T, recipe, arch string, files map[string]string) Image {
	t.Helper()
	im := Image{Recipe: recipe, Arch: arch, Dir: t.TempDir()}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(im.Dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		im.Artefacts = append(im.Artefacts, report.Artefact{Name: name, Size: int64(len(body)), SHA256: sum([]byte(body))})
	}
	return im
}

var disk = strings.Repeat("\x00", 3<<20) + "data" + strings.Repeat("\x00", 1<<20)

func sample(t *testing.T) Release {
	return Release{
		Images: []Image{
			built(t, "node", "amd64", map[string]string{"vmlinuz": "kernel", "initramfs.img": "initrd", "node.efi": "MZ", "node.raw": disk, "manifest.json": "{}", "garboard.lock": "lock"}),
			built(t, "node", "arm64", map[string]string{"vmlinuz": "other kernel", "garboard.lock": "lock"}),
			built(t, "metal", "amd64", map[string]string{"vmlinuz": "kernel", "metal.qcow2": "QFI", "garboard.lock": "lock"}),
		},
		Sources: []byte("sources\n"), Licences: []byte("licences\n"),
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func read(t *testing.T, elems ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elems...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestName(t *testing.T) {
	for _, c := range [][4]string{
		{"node", "amd64", "vmlinuz", "node-amd64.vmlinuz"},
		{"node", "arm64", "node.efi", "node-arm64.efi"},
		{"node", "arm64", "node.raw", "node-arm64.raw.zst"},
		{"node", "amd64", "sbom.cdx.json", "node-amd64.sbom.cdx.json"},
		{"node", "amd64", "garboard.lock", "garboard.lock"},
		{"a.b", "amd64", "a.b.qcow2", "a.b-amd64.qcow2"},
	} {
		if got := Name(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%s of %s %s: %s, want %s", c[2], c[0], c[1], got, c[3])
		}
	}
}

func TestReleaseIsCompleteAndTheSameEachTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist")
	for range 2 { // the second replaces the first
		if _, err := sample(t).Write(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	again := filepath.Join(t.TempDir(), "below", "dist")
	listed, err := sample(t).Write(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"SHA256SUMS", "SOURCES", "THIRD-PARTY-LICENCES", "garboard.lock", "metal-amd64.qcow2", "metal-amd64.vmlinuz",
		"node-amd64.efi", "node-amd64.initramfs.img", "node-amd64.manifest.json", "node-amd64.raw.zst", "node-amd64.vmlinuz", "node-arm64.vmlinuz"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	for i, name := range want {
		if !bytes.Equal(read(t, dir, name), read(t, again, name)) {
			t.Errorf("%s differs between two releases of the same files", name)
		}
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode() != 0o644 {
			t.Errorf("%s: mode %v, %v, want 0644", name, fi.Mode(), err)
		}
		if listed[i].Name != name || listed[i].Size != fi.Size() {
			t.Errorf("listed is %+v, on disk %s of %d bytes", listed[i], name, fi.Size())
		}
	}
	z, err := zstd.NewReader(bytes.NewReader(read(t, dir, "node-amd64.raw.zst")))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if got, err := io.ReadAll(z); err != nil || string(got) != disk {
		t.Errorf("the disk image unpacks to %d bytes, %v, want the %d it had", len(got), err, len(disk))
	}
	if out, err := sha256sum(dir); err != nil {
		t.Errorf("sha256sum -c: %v: %s", err, out)
	}
	if left := names(t, filepath.Dir(dir)); !slices.Equal(left, []string{"dist"}) {
		t.Errorf("left beside it: %q", left)
	}
}

// sha256sum is the documented verification.
func sha256sum(dir string) ([]byte, error) {
	cmd := exec.Command("sha256sum", "-c", "--strict", "--quiet", report.SumsName)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

func TestTamperedFileIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist")
	if _, err := sample(t).Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t, dir) {
		if name == report.SumsName {
			continue
		}
		path := filepath.Join(dir, name)
		body := read(t, path)
		changed := append(bytes.Clone(body[:len(body)-1]), body[len(body)-1]^1)
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := sha256sum(dir); err == nil || !strings.Contains(string(out), name) {
			t.Errorf("%s was changed by one bit; sha256sum -c says %v: %s", name, err, out)
		}
		if err := os.WriteFile(path, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReleaseRefusesOtherPeoplesFiles(t *testing.T) {
	earlier := func(t *testing.T, dir string) {
		if _, err := sample(t).Write(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want string // "": it is written
	}{
		"missing":         {func(*testing.T, string) {}, ""},
		"empty":           {func(t *testing.T, dir string) { mkdir(t, dir) }, ""},
		"earlier release": {earlier, ""},
		"somebody's":      {func(t *testing.T, dir string) { mkdir(t, dir); put(t, dir, "thesis.tex", "x") }, "SHA256SUMS"},
		"a build's": {func(t *testing.T, dir string) {
			mkdir(t, dir)
			put(t, dir, "vmlinuz", "x")
			put(t, dir, report.SumsName, sum([]byte("x"))+"  vmlinuz\n")
		}, "not a release's"},
		"earlier release with more": {func(t *testing.T, dir string) { earlier(t, dir); put(t, dir, "notes.txt", "x") }, "notes.txt"},
		"a directory in it":         {func(t *testing.T, dir string) { earlier(t, dir); mkdir(t, filepath.Join(dir, "sources")) }, "sources"},
		"a file":                    {func(t *testing.T, dir string) { put(t, filepath.Dir(dir), filepath.Base(dir), "x") }, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dist")
			c.make(t, dir)
			before := snapshot(t, filepath.Dir(dir))
			_, err := sample(t).Write(t.Context(), dir)
			if c.want == "" {
				if err != nil || !slices.Contains(names(t, dir), LicencesName) {
					t.Errorf("not written: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if after := snapshot(t, filepath.Dir(dir)); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// TestFailedReleaseChangesNothing: whatever fails, an earlier release stays as it is.
func TestFailedReleaseChangesNothing(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		spoil func(r *Release)
		want  string
	}{
		"an artefact that is gone":    {t.Context(), func(r *Release) { os.Remove(filepath.Join(r.Images[1].Dir, "vmlinuz")) }, "vmlinuz"},
		"an artefact that is another": {t.Context(), func(r *Release) { artefact(t, &r.Images[2], "vmlinuz").SHA256 = sum(nil) }, "its build said"},
		"two locks":                   {t.Context(), func(r *Release) { artefact(t, &r.Images[1], "garboard.lock").SHA256 = sum(nil) }, "garboard.lock"},
		"one name twice":              {t.Context(), func(r *Release) { r.Images = append(r.Images, r.Images[0]) }, "would be called"},
		"a check that says no":        {t.Context(), func(r *Release) { r.Check = func(context.Context, string) error { return errors.New("no") } }, "do not pass"},
		"interrupted":                 {cancelled, func(*Release) {}, context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dist")
			if _, err := sample(t).Write(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, filepath.Dir(dir))
			r := sample(t)
			c.spoil(&r)
			if _, err := r.Write(c.ctx, dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if after := snapshot(t, filepath.Dir(dir)); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// artefact is the one of that name, wherever it stands.
func artefact(t *testing.T, m *Image, name string) *report.Artefact {
	t.Helper()
	for i := range m.Artefacts {
		if m.Artefacts[i].Name == name {
			return &m.Artefacts[i]
		}
	}
	t.Fatalf("%s is no artefact of %s", name, m.Dir)
	return nil
}

// TestKilledReleaseIsMended: what a killed run can leave behind does not last.
func TestKilledReleaseIsMended(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist")
	p := place(dir)
	if _, err := sample(t).Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, p.old); err != nil { // killed between two renames
		t.Fatal(err)
	}
	mkdir(t, p.fresh)
	put(t, p.fresh, "half", "x")
	r := sample(t)
	r.Images[0].Artefacts[0].SHA256 = sum(nil)
	if _, err := r.Write(t.Context(), dir); err == nil {
		t.Fatal("the control did not fail")
	}
	if left := names(t, filepath.Dir(dir)); !slices.Equal(left, []string{"dist"}) {
		t.Errorf("%q is there, want the earlier release alone, under its name", left)
	}
	if out, err := sha256sum(dir); err != nil {
		t.Errorf("the earlier release: %v: %s", err, out)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, dir, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

// snapshot is every file below a directory with its hash.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out = append(out, p+" "+sum(read(t, p)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// TestCompressionDoesNotDependOnReads: a disk or a pipe may give any number of
// bytes at a time.
func TestCompressionDoesNotDependOnReads(t *testing.T) {
	body := make([]byte, 1<<20)
	rand.Read(body[:1<<18])
	var want, got bytes.Buffer
	if err := compress(&want, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	if err := compress(&got, &dribble{bytes.NewReader(body)}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want.Bytes(), got.Bytes()) {
		t.Errorf("%d and %d bytes, which differ", want.Len(), got.Len())
	}
}

type dribble struct{ r io.Reader }

func (d *dribble) Read(p []byte) (int, error) { return d.r.Read(p[:min(len(p), 777)]) }
