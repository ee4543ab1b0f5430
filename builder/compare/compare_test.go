package compare

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"garboard.local/builder/inspect"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
)

func sample() *report.Manifest {
	return &report.Manifest{
		Recipe: "node", Arch: "amd64", Kernel: "6.12.1",
		Packages: []report.Package{{Name: "crun", Version: "1"}, {Name: "gone", Version: "3"}},
		Programs: []report.Program{{Name: "kubelet", Version: "v1.36.3", Go: "1.26.8", Modules: []report.Module{{Path: "golang.org/x/net", Version: "v0.1.0"}}}},
		Root: []*rootfs.Entry{
			{Path: "usr", Kind: rootfs.Dir, Mode: 0o755, Origin: "deb crun 1"},
			{Path: "usr/crun", Kind: rootfs.File, Mode: 0o755, Size: 10, SHA256: "a", Origin: "deb crun 1"},
			{Path: "usr/old", Kind: rootfs.File, Mode: 0o644, Size: 5, SHA256: "b", Origin: "deb gone 3"},
			{Path: "link", Kind: rootfs.Symlink, Mode: 0o777, Link: "usr/old", Origin: "recipe"},
		},
	}
}

func TestSameIsSame(t *testing.T) {
	if r := Manifests(sample(), sample()); !r.Same || len(r.Files)+len(r.Versions)+len(r.Settings)+len(r.Weights) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestManifests(t *testing.T) {
	b := sample()
	b.Kernel = "6.12.2"
	b.KernelImage = &report.KernelImage{Name: "layout", Version: "6.12.2", Digest: "sha256:ab"}
	b.Packages = []report.Package{{Name: "crun", Version: "2"}, {Name: "new", Version: "4"}}
	b.Programs[0].Modules[0].Version = "v0.2.0"
	b.Root[1] = &rootfs.Entry{Path: "usr/crun", Kind: rootfs.File, Mode: 0o4755, Size: 12, SHA256: "c", Capabilities: "01", Origin: "deb crun 2"}
	b.Root[2] = &rootfs.Entry{Path: "usr/new", Kind: rootfs.File, Mode: 0o644, Size: 7, SHA256: "d", Origin: "deb new 4"}
	b.Root[3] = &rootfs.Entry{Path: "link", Kind: rootfs.Symlink, Mode: 0o777, Link: "usr/new", UID: 7, Origin: "recipe"}
	want := Result{
		Settings: []Version{{"kernel", "6.12.1", "6.12.2"}},
		Versions: []Version{{"deb crun", "1", "2"}, {"deb gone", "3", ""}, {"deb new", "", "4"}, {"go golang.org/x/net", "v0.1.0", "v0.2.0"}, {"kernel image layout", "", "6.12.2 sha256:ab"}},
		Files: []Change{
			{Path: "/link", Kind: "changed", What: []string{"owner", "link"}, ModeA: 0o777, ModeB: 0o777, Group: "recipe"},
			{Path: "/usr/crun", Kind: "changed", What: []string{"size", "mode", "capabilities", "content"}, SizeA: 10, SizeB: 12, ModeA: 0o755, ModeB: 0o4755, Group: "deb crun"},
			{Path: "/usr/new", Kind: "added", SizeB: 7, ModeB: 0o644, Group: "deb new"},
			{Path: "/usr/old", Kind: "removed", SizeA: 5, ModeA: 0o644, Group: "deb gone"},
		},
		Weights: []Weight{{"deb new", 0, 7}, {"deb gone", 5, 0}, {"deb crun", 10, 12}},
	}
	if got := Manifests(sample(), b); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNodes(t *testing.T) {
	one := func(sum string) *inspect.Node {
		return &inspect.Node{Name: "initramfs.img", Kind: inspect.File, Size: 9, SHA256: sum, Children: []*inspect.Node{
			{Name: "archive 1", Kind: inspect.Archive, Children: []*inspect.Node{
				{Name: "root.erofs", Kind: inspect.File, Size: 7, SHA256: sum, Children: []*inspect.Node{
					{Name: "etc", Kind: inspect.Dir, Children: []*inspect.Node{{Name: "hostname", Kind: inspect.File, Size: 3, SHA256: sum}}},
				}},
			}},
		}}
	}
	r := Nodes(one("a"), one("b"))
	if len(r.Files) != 1 || r.Files[0].Path != "archive 1!/root.erofs!/etc/hostname" || !reflect.DeepEqual(r.Files[0].What, []string{"content"}) {
		t.Errorf("the file itself is to be named, not the containers around it: %+v", r.Files)
	}
}

func TestOutputs(t *testing.T) {
	a := []report.Artefact{{Name: "vmlinuz", SHA256: "1", Size: 5}, {Name: "x", SHA256: "2", Size: 5}}
	b := []report.Artefact{{Name: "vmlinuz", SHA256: "9", Size: 5}, {Name: "x", SHA256: "2", Size: 5}, {Name: "node.iso", SHA256: "3", Size: 1}}
	var got []string
	for _, c := range Outputs(a, b) {
		got = append(got, c.Kind+" "+c.Path)
	}
	if want := []string{"added node.iso", "changed vmlinuz"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFirstDifference(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("x", 3<<20)
	for _, c := range []struct{ name, a, b, want string }{
		{"same", big, big, ""}, {"empty", "", "", ""},
		{"a byte", big, big[:2<<20] + "y" + big[2<<20+1:], "first difference at byte 2097152: 0x78"},
		{"shorter", big, big[:1<<20], "one ends at byte 1048576"},
	} {
		pa, pb := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		for p, s := range map[string]string{pa: c.a, pb: c.b} {
			if err := os.WriteFile(p, []byte(s), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := FirstDifference(pa, pb)
		if err != nil || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
