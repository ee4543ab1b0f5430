package preloaded

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
)

// fakeImage is written to a store as builder/preload does.
type fakeImage struct {
	name   string
	layers []string // their only file is called so
}

func diffID(layer string) digest.Digest { return digest.FromString("layer " + layer) }

// writeStore lays out the part of a containers/storage store that is read here.
func writeStore(t *testing.T, root string, list ...fakeImage) {
	t.Helper()
	put := func(name string, v any) []byte {
		b, ok := v.([]byte)
		if !ok {
			var err error
			if b, err = json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return b
	}
	records, layers := []map[string]any{}, map[string]map[string]any{}
	for _, f := range list {
		config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}}
		parent := ""
		for _, l := range f.layers {
			id := diffID(l).Encoded()
			if parent != "" {
				id = digest.FromString(parent + "+" + id).Encoded()
			}
			layers[id] = map[string]any{"id": id, "parent": parent, "diff-digest": diffID(l)}
			put("overlay/"+id+"/diff/"+l, []byte("content of "+l))
			parent = id
			config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, diffID(l))
		}
		b, _ := json.Marshal(config)
		d := digest.FromBytes(b)
		put("overlay-images/"+d.Encoded()+"/="+base64.StdEncoding.EncodeToString([]byte(d)), b)
		manifest := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest,
			Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: d, Size: int64(len(b))}}
		for _, l := range f.layers {
			manifest.Layers = append(manifest.Layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: diffID(l), Size: 1})
		}
		put("overlay-images/"+d.Encoded()+"/manifest", manifest)
		records = append(records, map[string]any{"id": d.Encoded(), "names": []string{f.name}, "layer": parent})
	}
	put("overlay-images/images.json", records)
	all := []map[string]any{}
	for _, l := range layers {
		all = append(all, l)
	}
	put("overlay-layers/layers.json", all)
}

// world is containerd's metadata over its real content store and snapshotter.
type world struct {
	*Seeder
	db   *metadata.DB
	disk snapshots.Snapshotter
	ctx  context.Context
	root string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	cs, err := local.NewStore(filepath.Join(dir, "content"))
	if err != nil {
		t.Fatal(err)
	}
	sn, err := overlay.NewSnapshotter(filepath.Join(dir, "snapshots"), overlay.AsynchronousRemove)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); sn.Close() })
	db := metadata.NewDB(b, cs, map[string]snapshots.Snapshotter{"overlayfs": sn})
	if err := db.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &world{db: db, disk: sn, ctx: namespaces.WithNamespace(t.Context(), "k8s.io"), root: filepath.Join(dir, "store"), Seeder: &Seeder{
		Images: metadata.NewImageStore(db), Content: db.ContentStore(), Leases: metadata.NewLeaseManager(db),
		Snapshots: db.Snapshotter("overlayfs"), Snapshotter: "overlayfs",
	}}
}

// start is a start of containerd on a root image with these images.
func (w *world) start(t *testing.T, list ...fakeImage) []Image {
	t.Helper()
	if err := os.RemoveAll(w.root); err != nil {
		t.Fatal(err)
	}
	writeStore(t, w.root, list...)
	found, err := Read(w.root)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Seed(w.ctx, found); err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.GarbageCollect(w.ctx); err != nil {
		t.Fatal(err)
	}
	return found
}

func (w *world) names(t *testing.T) []string {
	t.Helper()
	all, err := w.Images.List(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range all {
		if !strings.Contains(i.Name, "sha256:") {
			out = append(out, i.Name)
		}
	}
	slices.Sort(out)
	return out
}

var (
	pause = fakeImage{"localhost/garboard/pause:1", []string{"pause"}}
	hello = fakeImage{"localhost/garboard/hello:1", []string{"base", "hello", "top"}}
)

func TestSeed(t *testing.T) {
	w := newWorld(t)
	for range 2 { // a start of a node, and a restart of containerd
		list := w.start(t, pause, hello)
		if got := w.names(t); !slices.Equal(got, []string{hello.name, pause.name}) {
			t.Fatalf("images %q", got)
		}
		for _, img := range list {
			rec, err := w.Images.Get(w.ctx, img.Names[0])
			if err != nil {
				t.Fatal(err)
			}
			if rec.Labels["io.cri-containerd.pinned"] != "pinned" || rec.Labels[Label] != img.Target.Digest.String() {
				t.Errorf("labels %v", rec.Labels)
			}
			config, err := rec.Config(w.ctx, w.Content, anyPlatform{})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{config.Digest.String(), strings.TrimSuffix(img.Names[0], ":1") + "@" + img.Target.Digest.String()} {
				if _, err := w.Images.Get(w.ctx, name); err != nil {
					t.Error(err)
				}
			}
			if b, err := content.ReadBlob(w.ctx, w.Content, config); err != nil || string(b) != string(img.Config) {
				t.Errorf("configuration %q, %v", b, err)
			}
		}
	}
	// A container on the three layers: the mount names directories of the store.
	chain := identity.ChainID([]digest.Digest{diffID("base"), diffID("hello"), diffID("top")})
	mounts, err := w.Snapshots.Prepare(w.ctx, "container", chain.String())
	if err != nil {
		t.Fatal(err)
	}
	var lower []string
	for _, o := range mounts[0].Options {
		if dirs, ok := strings.CutPrefix(o, "lowerdir="); ok {
			lower = strings.Split(dirs, ":")
		}
	}
	if len(lower) != 3 {
		t.Fatalf("mounts %v", mounts)
	}
	for i, want := range []string{"top", "hello", "base"} {
		if b, err := os.ReadFile(filepath.Join(lower[i], want)); err != nil || string(b) != "content of "+want {
			t.Errorf("lower directory %d: %q, %v", i, b, err)
		}
		if at, err := filepath.EvalSymlinks(lower[i]); err != nil || !strings.HasPrefix(at, w.root) {
			t.Errorf("lower directory %d lies in %s, %v: the files were copied", i, at, err)
		}
	}
}

func TestRemovalLeavesTheStore(t *testing.T) {
	w := newWorld(t)
	list := w.start(t, hello)
	all, err := w.Images.List(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if err := w.Images.Delete(w.ctx, i.Name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.db.GarbageCollect(w.ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.disk.(snapshots.Cleaner).Cleanup(w.ctx); err != nil {
		t.Fatal(err)
	}
	for _, l := range list[0].Layers {
		if _, err := w.Snapshots.Stat(w.ctx, l.ChainID.String()); !errdefs.IsNotFound(err) {
			t.Errorf("snapshot %s: %v; nothing holds it any more", l.ChainID, err)
		}
		if files, err := os.ReadDir(l.Dir); err != nil || len(files) != 1 {
			t.Errorf("%s: %v, %v", l.Dir, files, err)
		}
	}
}

func TestNewRootImage(t *testing.T) {
	w := newWorld(t)
	w.start(t, pause, hello)
	// A pulled image on two of hello's layers, and hello itself on a node that
	// has replaced it by a pull.
	pulled := func(name string, diffs ...digest.Digest) {
		var cfg ocispec.Image
		cfg.RootFS.DiffIDs = diffs
		cfg.Author = name
		write := func(media string, v any, labels map[string]string) ocispec.Descriptor {
			b, _ := json.Marshal(v)
			d := ocispec.Descriptor{MediaType: media, Digest: digest.FromBytes(b), Size: int64(len(b))}
			if err := content.WriteBlob(w.ctx, w.Content, name+media, strings.NewReader(string(b)), d, content.WithLabels(labels)); err != nil {
				t.Fatal(err)
			}
			return d
		}
		c := write(ocispec.MediaTypeImageConfig, cfg, map[string]string{"containerd.io/gc.ref.snapshot.overlayfs": identity.ChainID(diffs).String()})
		m := write(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: c}, map[string]string{"containerd.io/gc.ref.content.0": c.Digest.String()})
		if _, err := w.Images.Create(w.ctx, images.Image{Name: name, Target: m}); errdefs.IsAlreadyExists(err) {
			_, err = w.Images.Update(w.ctx, images.Image{Name: name, Target: m}, "target")
			if err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
	}
	pulled("example.com/stands-on-it:1", diffID("base"), diffID("hello"))
	pulled("example.com/other:1", diffID("other"))
	pulled(pause.name, diffID("other"))
	replaced, err := w.Images.Get(w.ctx, pause.name)
	if err != nil {
		t.Fatal(err)
	}

	pause2 := fakeImage{pause.name, []string{"pause2"}}
	agent := fakeImage{"localhost/garboard/agent:1", []string{"agent"}}
	w.start(t, pause2, agent)
	// hello went with the old root image, and with its files what stood on them.
	if got := w.names(t); !slices.Equal(got, []string{"example.com/other:1", agent.name, pause.name}) {
		t.Errorf("images %q", got)
	}
	if now, err := w.Images.Get(w.ctx, pause.name); err != nil || now.Target.Digest != replaced.Target.Digest {
		t.Errorf("the image that a pull had replaced is %v, %v", now.Target, err)
	}
	if _, err := w.Snapshots.Stat(w.ctx, diffID("base").String()); !errdefs.IsNotFound(err) {
		t.Errorf("a snapshot without files is still there: %v", err)
	}
}

// The root image's store and that of a disk's data partition.
func TestTwoStores(t *testing.T) {
	w := newWorld(t)
	disk := filepath.Join(t.TempDir(), "disk")
	otherPause := fakeImage{pause.name, []string{"other pause"}}
	writeStore(t, w.root, pause)
	writeStore(t, disk, otherPause, hello)
	seed := func(wantErr string) []Image {
		t.Helper()
		list, err := ReadAll([]string{w.root, filepath.Join(disk, "none"), disk})
		if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("error %v, want %q", err, wantErr)
		}
		if err := w.Seed(w.ctx, list); err != nil {
			t.Fatal(err)
		}
		if _, err := w.db.GarbageCollect(w.ctx); err != nil {
			t.Fatal(err)
		}
		return list
	}
	for range 2 {
		list := seed("")
		if got := w.names(t); !slices.Equal(got, []string{hello.name, pause.name}) {
			t.Fatalf("images %q", got)
		}
		rec, err := w.Images.Get(w.ctx, pause.name)
		if err != nil || rec.Target.Digest != list[0].Target.Digest {
			t.Errorf("pause is %v, %v: not the root image's", rec.Target, err)
		}
	}
	// Damage of one store leaves the other's images.
	if err := os.WriteFile(filepath.Join(disk, "overlay-images/images.json"), []byte{0, 0}, 0o644); err != nil {
		t.Fatal(err)
	}
	seed("images.json")
	if got := w.names(t); !slices.Equal(got, []string{pause.name}) {
		t.Errorf("images %q", got)
	}
	// A directory that nothing was written to yet, and one that cri-o has looked at.
	for _, d := range []string{"", "overlay-images"} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if list, err := Read(root); list != nil || err != nil {
			t.Errorf("an empty store with %q: %v, %v", d, list, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, file, from, to, want string
	}{
		{"no layers.json", "overlay-layers/layers.json", "", "", "layers.json"},
		{"broken images.json", "overlay-images/images.json", "[", "{", "images.json"},
		{"other layer", "overlay-layers/layers.json", diffID("top").Encoded(), diffID("x").Encoded(), "layer 2 is not"},
		{"missing parent", "overlay-layers/layers.json", `"parent":"` + diffID("base").Encoded(), `"parent":"x`, "layer 0 is not"},
		{"other configuration", "overlay-images/*/=*", "linux", "minix", "the manifest says"},
		{"no manifest", "overlay-images/*/manifest", "", "", "manifest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			writeStore(t, root, hello)
			files, err := filepath.Glob(filepath.Join(root, c.file))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			b, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			if c.from == "" {
				err = os.Remove(files[0])
			} else if !strings.Contains(string(b), c.from) {
				t.Fatalf("%s does not hold %q", b, c.from)
			} else {
				err = os.WriteFile(files[0], []byte(strings.ReplaceAll(string(b), c.from, c.to)), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Read(root); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %s", err, c.want)
			}
		})
	}
	if list, err := Read(filepath.Join(t.TempDir(), "none")); list != nil || err != nil {
		t.Errorf("a root image without images: %v, %v", list, err)
	}
}

// A layer whose directory is missing fails for its image, and others are made.
func TestOneBadImage(t *testing.T) {
	w := newWorld(t)
	writeStore(t, w.root, hello, pause)
	list, err := Read(w.root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(list[0].Layers[1].Dir); err != nil {
		t.Fatal(err)
	}
	if err := w.Seed(w.ctx, list); err == nil || !strings.Contains(err.Error(), hello.name) {
		t.Errorf("error %v, want one that names %s", err, hello.name)
	}
	if got := w.names(t); !slices.Equal(got, []string{pause.name}) {
		t.Errorf("images %q", got)
	}
}
