package builder

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"garboard.local/builder/preload"
	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/oci/ocitest"
	"garboard.local/init/table"
	"garboard.local/pod"
)

// imageOf is the view of an image with some files and links; a file below a bin can be
// executed, and a name that ends with / is a directory, of somebody's and closed.
func imageOf(files ...string) preload.View {
	v := preload.View{Config: []byte(`{"config": {"Volumes": {"/data/own": {}}}}`), Files: []preload.Entry{{Type: preload.TypeDir, Mode: 0o755}}}
	for _, f := range files {
		name, to, isLink := strings.Cut(f, " -> ")
		e := preload.Entry{Path: name, Type: preload.TypeFile, Mode: 0o644}
		switch {
		case isLink:
			e.Type, e.Link = preload.TypeSymlink, to
		case strings.HasSuffix(name, "/"):
			e = preload.Entry{Path: strings.TrimSuffix(name, "/"), Type: preload.TypeDir, Mode: 0o700, UID: 7, GID: 8}
		case strings.Contains(name, "bin/"):
			e.Mode = 0o755
		}
		v.Files = append(v.Files, e)
	}
	slices.SortFunc(v.Files, func(a, b preload.Entry) int { return strings.Compare(a.Path, b.Path) })
	return v
}

func rootedService(mounts ...table.Mount) table.Service {
	return table.Service{Name: "s", Command: []string{"/bin/app"}, Mounts: mounts, Root: &table.Root{Image: "i", Layers: []string{"/top", "/image"}}}
}

// What is above an image: what it lacks, and where directories are shared, as they are.
func TestServiceRoot(t *testing.T) {
	always := []string{".garboard dir 755 0:0", "data dir 755 0:0", "data/own dir 755 0:0", "dev dir 755 0:0", "etc dir 755 0:0", "etc/hosts -> /.garboard/hosts",
		"etc/resolv.conf -> /.garboard/resolv.conf", "proc dir 755 0:0", "sys dir 755 0:0"}
	const app = "bin/app"
	for _, tt := range []struct {
		name  string
		image []string
		s     table.Service
		more  []string // in place of what is always there, if it begins with the same path
		less  []string
		err   string
	}{
		{"an empty one", []string{app}, rootedService(), nil, nil, ""},
		{"a distribution's", []string{app, "etc/", "etc/resolv.conf -> ../run/resolv.conf", "etc/hosts", "proc/", "sys/", "dev/"}, rootedService(), []string{"etc dir 700 7:8"}, []string{"dev", "proc", "sys"}, ""},
		{"a volume", []string{app, "var/lib/"}, rootedService(table.Mount{Target: "/var/lib/a/b"}), []string{"var dir 755 0:0", "var/lib dir 700 7:8", "var/lib/a dir 755 0:0", "var/lib/a/b dir 755 0:0"}, nil, ""},
		{"a file", []string{app}, rootedService(table.Mount{Target: "/a/f", File: true}), []string{"a dir 755 0:0", "a/f file 644 0:0"}, nil, ""},
		{"behind links", []string{app, "var/run -> /run", "run/", "lock -> var/run/lock"}, rootedService(table.Mount{Target: "/var/run/x"}), []string{"run dir 700 7:8", "run/x dir 755 0:0"}, nil, ""},
		{"what is there", []string{app, "a/", "f -> a/f", "a/f"}, rootedService(table.Mount{Target: "/a"}, table.Mount{Target: "/f", File: true}), nil, nil, ""},
		{"a volume of the image's that is one of the pod's", []string{app}, rootedService(table.Mount{Target: "/data/own"}), nil, nil, ""},
		{"linked etc", []string{app, "etc -> usr/etc", "usr/etc/"}, rootedService(), []string{"usr dir 755 0:0", "usr/etc dir 700 7:8", "usr/etc/hosts -> /.garboard/hosts", "usr/etc/resolv.conf -> /.garboard/resolv.conf"}, []string{"etc"}, ""},
		{"program behind an absolute link", []string{"bin/app -> /opt/app", "opt/app -> /opt/bin/app-1", "opt/bin/app-1"}, rootedService(), nil, nil, ""},

		{"directory over a file", []string{app, "f"}, rootedService(table.Mount{Target: "/f"}), nil, nil, "mount at /f: /f: one is a directory"},
		{"file over a directory", []string{app, "d/"}, rootedService(table.Mount{Target: "/d", File: true}), nil, nil, "one is a directory"},
		{"below a file", []string{app, "f"}, rootedService(table.Mount{Target: "/f/x"}), nil, nil, "/f is no directory"},
		{"far below a file", []string{app, "f"}, rootedService(table.Mount{Target: "/f/x/y"}), nil, nil, "/f is no directory"},
		{"link to nowhere", []string{app, "l -> gone"}, rootedService(table.Mount{Target: "/l"}), nil, nil, "/l is a link to gone, which leads nowhere"},
		{"links in a circle", []string{app, "a -> b", "b -> a"}, rootedService(table.Mount{Target: "/a/x"}), nil, nil, "leads nowhere"},
		{"directory for name servers", []string{app, "etc/resolv.conf/"}, rootedService(), nil, nil, "/etc/resolv.conf is a directory"},
		{"program in a volume", []string{"bin/"}, rootedService(table.Mount{Target: "/bin"}), nil, nil, ""},
		{"dev that is a file", []string{app, "dev"}, rootedService(), nil, nil, "/dev: one is a directory"},
		{"in the kernel's views and in each other", []string{app, "d/", "d/x"}, rootedService(table.Mount{Target: "/d"}, table.Mount{Target: "/d/x/y"}, table.Mount{Target: "/dev/x/y"}, table.Mount{Target: "/sys/fs/bpf"}, table.Mount{Target: "/dev/shm"}), nil, nil, ""},
		{"proc that is a link", []string{app, "proc -> d", "d/"}, rootedService(), nil, nil, "its /proc is a link to d"},
		{"names that are a link", []string{app, ".garboard -> d", "d/"}, rootedService(), nil, nil, "its /.garboard is a link to d"},
		{"no program", []string{"bin/other"}, rootedService(), nil, nil, "/bin/app is not in it"},
		{"program that is none", []string{"bin/app/"}, rootedService(), nil, nil, "/bin/app is no program"},
		{"program of a hook", []string{app}, func() table.Service {
			s := rootedService()
			s.PreStop = &table.Hook{Exec: []string{"/bin/bye"}}
			return s
		}(), nil, nil, "/bin/bye is not in it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := imageBuild(t, recipe.Recipe{Name: "n"})
			b.images.views = map[string]preload.View{"i": withParents(imageOf(tt.image...))}
			err := b.addServiceRoots(&pod.Compiled{Services: []table.Service{tt.s, {Name: "without"}}, Images: map[string]string{"s": "s.yaml:3: spec.containers[0].image"}})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.HasPrefix(err.Error(), "s.yaml:3: spec.containers[0].image: service s: image i: ") {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			path := func(line string) string { p, _, _ := strings.Cut(line, " "); return p }
			var got []string
			want := slices.DeleteFunc(slices.Clone(always), func(line string) bool {
				gone := func(less string) bool { return path(line) == less || less == "etc" && strings.HasPrefix(line, "etc/") }
				return slices.ContainsFunc(tt.less, gone) || slices.ContainsFunc(tt.more, func(more string) bool { return path(more) == path(line) })
			})
			want = append(want, tt.more...)
			slices.Sort(want)
			for _, e := range b.tree.Entries() {
				if e.Path == "top" {
					continue
				}
				line := strings.TrimPrefix(e.Path, "top/")
				if e.Kind == rootfs.Symlink {
					line += " -> " + e.Link
				} else {
					line += fmt.Sprintf(" %s %o %d:%d", e.Kind, e.Mode, e.UID, e.GID)
				}
				got = append(got, line)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if err := b.tree.Check(); err != nil { // the links lead out of the root image's tree, into a service's
				t.Error(err)
			}
		})
	}
}

// withParents adds the directories that preload would have.
func withParents(v preload.View) preload.View {
	has := map[string]bool{}
	for _, e := range v.Files {
		has[e.Path] = true
	}
	for _, e := range v.Files {
		parts := strings.Split(e.Path, "/")
		for i := 1; i < len(parts); i++ {
			if p := strings.Join(parts[:i], "/"); !has[p] {
				has[p] = true
				v.Files = append(v.Files, preload.Entry{Path: p, Type: preload.TypeDir, Mode: 0o755})
			}
		}
	}
	slices.SortFunc(v.Files, func(a, b preload.Entry) int { return strings.Compare(a.Path, b.Path) })
	return v
}

// Whatever links an image has, a place is found in it or refused, and is where the
// kernel would look for it.
func FuzzServiceRoot(f *testing.F) {
	f.Add("a -> b\nb/", "/a/x")
	f.Add("a -> /a", "/a")
	f.Add("a -> ../../..\nb -> a/b", "/b/c/d")
	f.Fuzz(func(t *testing.T, image, target string) {
		if len(image)+len(target) > 1000 {
			return // withParents takes long
		}
		var files []string
		for line := range strings.Lines(image) {
			name, to, isLink := strings.Cut(strings.TrimSuffix(line, "\n"), " -> ")
			dir := strings.HasSuffix(name, "/")
			name = strings.Trim(name, "/")
			if !fs.ValidPath(name) || name == "." || isLink && to == "" {
				return
			}
			switch {
			case isLink:
				name += " -> " + to
			case dir:
				name += "/"
			}
			files = append(files, name)
		}
		v, err := newImageView("i", withParents(imageOf(files...)))
		if err != nil {
			return // one path twice
		}
		top := newTopLayer(v, "o", "r")
		if top.place(target, false) != nil {
			return
		}
		at, ok := top.all.Resolve(target)
		if e := top.all.Get(at); !ok || at != "" && (e == nil || e.Kind != rootfs.Dir) {
			t.Errorf("%q in %q: %q, %v", target, files, at, ok)
		}
		if err := top.into(rootfs.New(), "/top"); err != nil {
			t.Error(err)
		}
	})
}

// A service's image is one of the recipe's, and is read with its links.
func TestServiceImage(t *testing.T) {
	dir := t.TempDir()
	img := ocitest.Image("amd64",
		ocitest.Programs(map[string][]byte{"usr/bin/app": []byte("old"), "usr/bin/other": []byte("other")}),
		ocitest.Programs(map[string][]byte{"usr/bin/app": []byte("new")}))
	img, err := mutate.Config(img, v1.Config{Entrypoint: []string{"app"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := ocitest.Layout(dir, ocitest.Index(img)); err != nil {
		t.Fatal(err)
	}
	b := imageBuild(t, recipe.Recipe{File: "r.yaml", Images: []recipe.Image{{Name: "example.com/app:1", OCI: dir, Reason: "r"}},
		Disk: recipe.Disk{Images: []recipe.Image{{Name: "example.com/disk:1", OCI: dir, Reason: "r"}}}})
	if err := b.fetchImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.layImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := b.serviceImage("example.com/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := fs.ReadFile(got.Files, "usr/bin/app"); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := fs.ReadFile(got.Files, "usr/bin"); err == nil {
		t.Error("a directory can be read")
	}
	if _, err := fs.Stat(got.Files, "absent"); err == nil {
		t.Error("what is not there is found")
	}
	// The layers are there, the topmost first.
	tree := rootfs.New()
	for _, e := range b.images.root {
		if err := tree.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	var tops []string
	for _, l := range got.Layers {
		at, ok := tree.Resolve(l + "/usr/bin/app")
		if !ok {
			t.Fatalf("%s is not in the store", l)
		}
		tops = append(tops, content(t, tree.Get(at)))
	}
	if !slices.Equal(tops, []string{"new", "old"}) {
		t.Errorf("layers with %q", tops)
	}
	for name, want := range map[string]string{"example.com/disk:1": "lies on the data partition", "example.com/else:1": "is no image of recipe r.yaml, which has example.com/app:1; add it to images"} {
		if _, err := b.serviceImage(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
