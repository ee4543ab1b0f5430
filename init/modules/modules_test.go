package modules

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// image writes what depmod writes for a handful of modules.
func image(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep": `kernel/fs/xfs/xfs.ko: kernel/lib/libcrc32c.ko
kernel/lib/libcrc32c.ko:
kernel/net/netfilter/nft_chain_nat.ko: kernel/net/netfilter/nf_nat.ko kernel/net/netfilter/nf_conntrack.ko kernel/lib/libcrc32c.ko
kernel/net/netfilter/nf_nat.ko: kernel/net/netfilter/nf_conntrack.ko kernel/lib/libcrc32c.ko
kernel/net/netfilter/nf_conntrack.ko: kernel/lib/libcrc32c.ko
kernel/net/vmw_vsock/vsock-diag_x.ko:
kernel/drivers/a/good.ko:
kernel/drivers/a/bad.ko:
kernel/crypto/soft.ko:
kernel/crypto/pre.ko:
`,
		"modules.alias": `# Aliases extracted from modules themselves.
alias fs-xfs xfs
alias nft-chain-2-nat nft_chain_nat
alias net-pf-16-proto-9 vsock_diag_x
alias pci:v00001AF4d0000100[0-9A-F]sv*sd*bc*sc*i* good
alias pci:v00001AF4d* bad
alias of:N*T*Cvendor/dev good
`,
		"modules.softdep": "# Soft\nsoftdep soft pre: pre missing post: good\n",
		"modules.builtin": "kernel/fs/ext4/ext4.ko\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name   string
		want   string
		absent bool
	}{
		{"xfs", "libcrc32c xfs", false},
		{"fs-xfs", "libcrc32c xfs", false},
		{"nft-chain-2-nat", "libcrc32c nf_conntrack nf_nat nft_chain_nat", false},
		{"net-pf-16-proto-9", "vsock-diag_x", false},
		{"vsock_diag_x", "vsock-diag_x", false}, // a file name that mixes both characters
		{"vsock-diag-x", "vsock-diag_x", false},
		{"ext4", "", false}, // built in
		{"pci:v00001AF4d00001000sv00001AF4sd00000001bc02sc00i00", "good bad", false},
		{"of:NxTyCvendor/dev", "good", false},
		{"soft", "pre soft good", false},
		{"fs-zfs", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			x, err := Open(image(t), func(p string) error {
				n := strings.TrimSuffix(filepath.Base(p), ".ko")
				got = append(got, n)
				if n == "bad" {
					return errors.New("no such device")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			err = x.Load(tt.name)
			if errors.Is(err, ErrNotFound) != tt.absent || (err != nil && !tt.absent) {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(got, strings.Fields(tt.want)) {
				t.Errorf("loaded %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEachModuleIsLoadedOnce(t *testing.T) {
	n := 0
	x, err := Open(image(t), func(string) error { n++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	_, _, _ = x.Load("xfs"), x.Load("fs-xfs"), x.Load("libcrc32c")
	if n != 2 {
		t.Errorf("%d loads, want 2", n)
	}
}

func TestModprobe(t *testing.T) {
	for _, tt := range []struct {
		args   string
		status int
		stderr string
		loaded string
	}{
		{"-q -- fs-xfs", 0, "", "libcrc32c.ko xfs.ko"},
		{"xfs", 0, "", "libcrc32c.ko xfs.ko"},
		{"-q -- net-pf-99", 1, "", ""},
		{"net-pf-99", 1, "no such module", ""},
		{"-n xfs", 0, "", ""},
		{"-qa ext4 xfs", 0, "", "libcrc32c.ko xfs.ko"},
		{"xfs option=1", 0, "", "libcrc32c.ko xfs.ko"},
		{"-r xfs", 1, "not known here", ""},
		{"-d /tmp xfs", 1, "not known here", ""},
		{"", 1, "usage", ""},
		{"-q bad", 1, "no such device", "bad.ko"}, // -q hides what is absent, not what fails
	} {
		t.Run(tt.args, func(t *testing.T) {
			var loaded []string
			var stderr bytes.Buffer
			status := Modprobe(strings.Fields(tt.args), func() (*Index, error) {
				return Open(image(t), func(p string) error {
					loaded = append(loaded, filepath.Base(p))
					if filepath.Base(p) == "bad.ko" {
						return errors.New("no such device")
					}
					return nil
				})
			}, &stderr, io.Discard)
			if status != tt.status || strings.Join(loaded, " ") != tt.loaded {
				t.Errorf("status %d, loaded %q", status, loaded)
			}
			if (tt.stderr == "") != (stderr.Len() == 0) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("stderr %q", stderr.String())
			}
		})
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("pci:v*d[0-9]*", "pci:v1d2")
	f.Add("a/b*", "a/bc")
	f.Add("[", "x")
	f.Fuzz(func(t *testing.T, p, s string) {
		match(canonicalPattern(p), s)
		if !strings.ContainsAny(s, `*?[]\-`) && !match(canonicalPattern(s), s) {
			t.Errorf("%q does not match itself", s)
		}
	})
}

func FuzzParseSoft(f *testing.F) {
	f.Add("softdep a-b pre: c post: d e")
	f.Fuzz(func(t *testing.T, line string) {
		m, _, _, ok := parseSoft(line)
		if ok && (m == "" || strings.ContainsAny(m, " -")) {
			t.Errorf("module %q", m)
		}
	})
}
