package kernel

import (
	"strings"
	"testing"

	"garboard.local/builder/recipe"
)

func testIndex(t *testing.T) *index {
	t.Helper()
	x, err := readIndex(
		strings.NewReader(`kernel/fs/erofs/erofs.ko.xz: kernel/lib/lz4.ko.xz kernel/lib/crc.ko.xz
kernel/lib/lz4.ko.xz:
kernel/lib/crc.ko.xz:
kernel/net/netfilter/nft_chain_nat.ko.xz: kernel/net/netfilter/nf_tables.ko.xz
kernel/net/netfilter/nf_tables.ko.xz:
kernel/drivers/block/virtio-blk.ko.xz:
kernel/lib/sum.ko.xz:
kernel/crypto/crc_generic.ko.xz:
kernel/crypto/crc-intel.ko.xz:
`),
		strings.NewReader("# comment\nsoftdep erofs pre: virtio-blk nowhere\nsoftdep sum pre: crc-32c\n"),
		strings.NewReader("# comment\nalias crc_32c crc_generic\nalias crc-32c crc_intel\nalias pci:v* sum\nshort\n"),
		strings.NewReader("kernel/fs/ext4/ext4.ko\n"))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func names(ms []Module) string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Name)
	}
	return strings.Join(out, " ")
}

func TestClosure(t *testing.T) {
	x := testIndex(t)
	for _, c := range []struct {
		name string
		want []recipe.Module
		got  string
	}{
		{"dependencies come first, the nearest last", []recipe.Module{{Name: "erofs"}}, "crc lz4 virtio_blk erofs"},
		{"a soft dependency by its alias", []recipe.Module{{Name: "sum"}}, "crc_generic crc_intel sum"},
		{"built in", []recipe.Module{{Name: "ext4"}}, ""},
		{"dash and underscore are one", []recipe.Module{{Name: "virtio_blk"}, {Name: "virtio-blk"}}, "virtio_blk"},
		{"wildcard", []recipe.Module{{Name: "nft_*"}}, "nf_tables nft_chain_nat"},
		{"directory", []recipe.Module{{Name: "net/netfilter/"}}, "nf_tables nft_chain_nat"},
		{"optional and missing", []recipe.Module{{Name: "button", Optional: true}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := x.closure(c.want)
			if err != nil || names(got) != c.got {
				t.Errorf("%q, %v; want %q", names(got), err, c.got)
			}
		})
	}
	if _, err := x.closure([]recipe.Module{{Name: "missing"}}); err == nil || !strings.Contains(err.Error(), `"missing"`) {
		t.Errorf("a missing module: %v", err)
	}
	got, _ := x.closure([]recipe.Module{{Name: "erofs", Reason: "root image"}})
	if got[0].Reason != "needed by erofs" || got[3].Reason != "root image" || got[3].File != "kernel/fs/erofs/erofs.ko" {
		t.Errorf("reasons and files: %+v", got)
	}
}

// What a node needs is in its image also where the recipe does not name it: the file
// system of the data partition is built into Debian's cloud kernel and a module of the
// general one.
func TestNeededModules(t *testing.T) {
	for _, arch := range recipe.Arches {
		needed, err := neededModules(arch)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct{ dep, builtin, want string }{
			{"kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz\nkernel/fs/jbd2/jbd2.ko.xz:\n", "", "jbd2 ext4"},
			{"kernel/fs/jbd2/jbd2.ko.xz:\n", "kernel/fs/ext4/ext4.ko\n", ""},
		} {
			x, err := readIndex(strings.NewReader(tt.dep), strings.NewReader(""), strings.NewReader(""), strings.NewReader(tt.builtin))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := x.closure(needed); err != nil || names(got) != tt.want {
				t.Errorf("%s: %q, %v; want %q", arch, names(got), err, tt.want)
			}
		}
	}
}

func TestReadIndexRefusesGarbage(t *testing.T) {
	if _, err := readIndex(strings.NewReader("no colon here"), strings.NewReader(""), strings.NewReader(""), strings.NewReader("")); err == nil {
		t.Error("a modules.dep line without a colon was accepted")
	}
}

func FuzzReadIndex(f *testing.F) {
	f.Add("a/b.ko.xz: c.ko", "softdep b pre: c", "alias c b", "kernel/x.ko")
	f.Fuzz(func(t *testing.T, dep, soft, alias, builtin string) {
		x, err := readIndex(strings.NewReader(dep), strings.NewReader(soft), strings.NewReader(alias), strings.NewReader(builtin))
		if err != nil {
			return
		}
		x.closure([]recipe.Module{{Name: "*", Optional: true}, {Name: "b", Optional: true}})
	})
}
