package kernel

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// A module is stored as it was before it was compressed, its signature included.
func TestUnpackLeavesModulesAsTheyAre(t *testing.T) {
	module := append(bytes.Repeat([]byte("\x7fELF module "), 1000), "\x30\x82signature~Module signature appended~\n"...)
	var x, z bytes.Buffer
	xw, err := xz.NewWriter(&x)
	if err != nil {
		t.Fatal(err)
	}
	zw, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{xw, zw} {
		if _, err := w.Write(module); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string][]byte{"plain": module, "xz": x.Bytes(), "zstd": z.Bytes()} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "sub/to.ko")
		if err := os.WriteFile(from, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unpack(from, to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, module) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(module), err)
		}
		if name != "plain" {
			if err := os.WriteFile(from, b[:len(b)/2], 0o644); err != nil {
				t.Fatal(err)
			}
			if err := unpack(from, filepath.Join(dir, "cut.ko")); err == nil {
				t.Errorf("%s: half a module was accepted", name)
			}
		}
	}
}

func TestDeclaredFirmware(t *testing.T) {
	for in, want := range map[string]string{
		"license=GPL\x00firmware=tigon/tg3.bin\x00firmware=a*.fw\x00": "[tigon/tg3.bin a*.fw]",
		"firmware=../../etc/shadow\x00firmware=/abs\x00firmware=\x00": "[]",
		"": "[]",
	} {
		if got := declared([]byte(in), ""); len(got) == 0 && want != "[]" || len(got) > 0 && "["+string(bytes.Join(toBytes(got), []byte(" ")))+"]" != want {
			t.Errorf("%q: %q, want %s", in, got, want)
		}
	}
	if got := declared([]byte("xhci_pci.firmware=renesas.mem\x00xhci_pci.license=GPL\x00firmware=no\x00"), "."); len(got) != 1 || got[0] != "renesas.mem" {
		t.Errorf("built in: %q", got)
	}
}

func toBytes(in []string) (out [][]byte) {
	for _, s := range in {
		out = append(out, []byte(s))
	}
	return out
}

func FuzzKernelImage(f *testing.F) {
	bz := make([]byte, 0x300)
	bz[0x1fe], bz[0x1ff] = 0x55, 0xaa
	copy(bz[0x202:], "HdrS\x0f\x02")
	f.Add(bz)
	arm := append(make([]byte, 56), "ARM\x64Linux version 6.1.2 (x) IKCFG_ST\x1f\x8b"...)
	f.Add(append(arm, make([]byte, 64)...))
	zboot := make([]byte, 0x80)
	copy(zboot, "MZ\x00\x00zimg\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Add(zboot)
	f.Fuzz(func(t *testing.T, b []byte) {
		k, arch, err := bootable(b)
		if err != nil {
			return
		}
		if arch == "" || len(k) == 0 {
			t.Error("no kernel and no error")
		}
		release(k)
		if text, err := embedded(k); err == nil && text == nil {
			t.Error("no configuration and no error")
		}
	})
}
