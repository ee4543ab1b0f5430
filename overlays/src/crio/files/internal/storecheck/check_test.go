package storecheck

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.podman.io/storage"
	"go.podman.io/storage/pkg/reexec"
)

func TestMain(m *testing.M) {
	if reexec.Init() {
		return
	}

	os.Exit(m.Run())
}

func open(t *testing.T, root string, additional ...string) storage.Store {
	t.Helper()

	options := storage.StoreOptions{
		RunRoot: filepath.Join(root, "run"), GraphRoot: filepath.Join(root, "graph"), GraphDriverName: "vfs",
	}
	for _, a := range additional {
		options.GraphDriverOptions = append(options.GraphDriverOptions, "vfs.imagestore="+filepath.Join(a, "graph"))
	}
	// With which driver it is found does not matter to the check.
	s, err := storage.GetStore(options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _, _ = s.Shutdown(true) })

	return s
}

// layer is a tar archive of one file.
func layer(t *testing.T, content string) *bytes.Buffer {
	t.Helper()

	var b bytes.Buffer

	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{
		Name: "file", Mode: 0o644, Size: int64(len(content)), Uid: os.Getuid(), Gid: os.Getgid(),
	}); err != nil {
		t.Fatal(err)
	}

	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return &b
}

func image(t *testing.T, s storage.Store, content string) *storage.Image {
	t.Helper()

	l, _, err := s.PutLayer("", "", nil, "", false, nil, layer(t, content))
	if err != nil {
		t.Fatal(err)
	}

	i, err := s.CreateImage("", nil, l.ID, "", nil)
	if err != nil {
		t.Fatal(err)
	}

	return i
}

// quick is what cri-o asks for.
func quick() *storage.CheckOptions {
	o := storage.CheckMost()
	o.LayerDigests, o.LayerContents = false, false

	return o
}

// A container of an image in an additional store is no damage, and what the
// repair does to a sound store is nothing.
func TestContainerOfAdditionalImage(t *testing.T) {
	written, root := t.TempDir(), t.TempDir()
	filled := open(t, written)
	preloaded := image(t, filled, "preloaded")

	if _, err := filled.Shutdown(true); err != nil {
		t.Fatal(err)
	}
	// A process knows the locks of a path for reading or for writing: another path.
	readOnly := filepath.Join(t.TempDir(), "other")
	if err := os.Rename(written, readOnly); err != nil {
		t.Fatal(err)
	}

	s := open(t, root, readOnly)
	pulled := image(t, s, "pulled")

	for _, i := range []*storage.Image{preloaded, pulled} {
		if _, err := s.CreateContainer("", nil, i.ID, "", "", nil); err != nil {
			t.Fatal(err)
		}
	}

	report, err := s.Check(quick())
	if err != nil {
		t.Fatal(err)
	}

	if len(report.Layers)+len(report.ROLayers)+len(report.Images)+len(report.ROImages)+len(report.Containers) > 0 {
		t.Errorf("a sound store: %+v", report)
	}

	if errs := s.Repair(report, storage.RepairEverything()); len(errs) > 0 {
		t.Error(errs)
	}

	if c, err := s.Containers(); err != nil || len(c) != 2 {
		t.Errorf("%d containers after the repair, %v", len(c), err)
	}
}

// A layer whose parent is in no store is damage, and goes with its image alone.
func TestLayerWithoutParent(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	sound := image(t, s, "sound")

	base, _, err := s.PutLayer("", "", nil, "", false, nil, layer(t, "base"))
	if err != nil {
		t.Fatal(err)
	}

	top, _, err := s.PutLayer("", base.ID, nil, "", false, nil, layer(t, "top"))
	if err != nil {
		t.Fatal(err)
	}

	damaged, err := s.CreateImage("", nil, top.ID, "", nil)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := s.Shutdown(true); err != nil {
		t.Fatal(err)
	}

	forget(t, filepath.Join(root, "graph", "vfs-layers", "layers.json"), base.ID)

	s = open(t, root)

	report, err := s.Check(quick())
	if err != nil {
		t.Fatal(err)
	}

	if e := report.Layers[top.ID]; len(e) != 1 || !errors.Is(e[0], storage.ErrLayerMissing) {
		t.Errorf("the layer without its parent: %v", e)
	}

	if len(report.Images[damaged.ID]) == 0 || len(report.Images[sound.ID]) > 0 {
		t.Errorf("damaged images: %v", report.Images)
	}

	_ = s.Repair(report, storage.RepairEverything())

	if _, err := s.Image(damaged.ID); !errors.Is(err, storage.ErrImageUnknown) {
		t.Errorf("the damaged image: %v", err)
	}

	if _, err := s.Image(sound.ID); err != nil {
		t.Errorf("the sound image: %v", err)
	}
}

// A container whose own layer a power cut has damaged goes, and takes nothing with it.
func TestDamagedContainer(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	sound := image(t, s, "sound")

	var containers []*storage.Container

	for range 2 {
		c, err := s.CreateContainer("", nil, sound.ID, "", "", nil)
		if err != nil {
			t.Fatal(err)
		}

		containers = append(containers, c)
	}

	// The layer of the first cannot be mounted any more.
	if err := os.RemoveAll(filepath.Join(root, "graph", "vfs", "dir", containers[0].LayerID)); err != nil {
		t.Fatal(err)
	}

	report, err := s.Check(quick())
	if err != nil {
		t.Fatal(err)
	}

	if len(report.Containers[containers[0].ID]) == 0 || len(report.Containers) != 1 || len(report.Images) > 0 {
		t.Errorf("damaged containers %v, images %v", report.Containers, report.Images)
	}

	if errs := s.Repair(report, storage.RepairEverything()); len(errs) > 0 {
		t.Error(errs)
	}

	if c, err := s.Containers(); err != nil || len(c) != 1 || c[0].ID != containers[1].ID {
		t.Errorf("containers after the repair: %v, %v", c, err)
	}

	if _, err := s.Image(sound.ID); err != nil {
		t.Errorf("the image: %v", err)
	}
}

// forget removes a layer's record.
func forget(t *testing.T, file, id string) {
	t.Helper()

	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	var layers, kept []map[string]any
	if err := json.Unmarshal(b, &layers); err != nil {
		t.Fatal(err)
	}

	for _, l := range layers {
		if l["id"] != id {
			kept = append(kept, l)
		}
	}

	if len(kept) != len(layers)-1 {
		t.Fatalf("%s names the layer %s %d times", file, id, len(layers)-len(kept))
	}

	if b, err = json.Marshal(kept); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
