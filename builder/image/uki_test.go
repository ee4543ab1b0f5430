package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/builder/store"
)

// ukiInput is a UKI of a small stub, kernel and initramfs.
func ukiInput(t *testing.T) UKIInput {
	t.Helper()
	return UKIInput{
		Stub:   write(t, "stub", testStub()),
		Kernel: write(t, "vmlinuz", program(peSection{name: ".text", bytes: []byte("kernel")}, peSection{name: ".sbat", bytes: []byte("sbat,1,x\nlinux,1,Linux\n")})),
		Initrd: write(t, "initramfs.img", bytes.Repeat([]byte("initramfs"), 1000)), Cmdline: "console=ttyS0 quiet",
		OSRelease: []byte("ID=garboard\nPRETTY_NAME=\"Garboard node\"\n"), Uname: "6.12.117+deb13-cloud-amd64",
	}
}

func TestUKIIsReproducible(t *testing.T) {
	in := ukiInput(t)
	var sums []string
	for range 2 {
		st := openStore(t)
		file, cached, err := UKI(context.Background(), st, in)
		if err != nil || cached {
			t.Fatalf("cached %t, %v", cached, err)
		}
		if _, cached, err := UKI(context.Background(), st, in); err != nil || !cached {
			t.Errorf("the same again: cached %t, %v", cached, err)
		}
		sum, err := store.HashFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := checkPE(t, b, 2).Section(".sbat"); got == nil || got.VirtualSize != uint32(len("sbat,1,SBAT Version,sbat,1,https://example\nstub,1,Stub,stub,1,https://example\nlinux,1,Linux\n")) {
			t.Errorf("section .sbat: %+v", got)
		}
		sums = append(sums, sum)
	}
	if sums[0] != sums[1] {
		t.Errorf("two UKIs of one input differ: %v", sums)
	}
}

func TestUKIKeepsTheKernelsNX(t *testing.T) {
	in := ukiInput(t)
	for _, nx := range []bool{true, false} {
		b, err := os.ReadFile(in.Kernel)
		if err != nil {
			t.Fatal(err)
		}
		b[0x44+peCharacteristic+1] = map[bool]byte{true: peNXCompat >> 8}[nx]
		in.Kernel = write(t, "vmlinuz", b)
		file, _, err := UKI(context.Background(), openStore(t), in)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := readKernel(file); err != nil || got != nx {
			t.Errorf("the kernel has NX_COMPAT %t, the UKI %t (%v)", nx, got, err)
		}
	}
}

func TestUKIRefuses(t *testing.T) {
	for _, tt := range []struct {
		set   func(*UKIInput)
		fault string
	}{
		{func(in *UKIInput) { in.Kernel = write(t, "vmlinuz", []byte("\x7fELF")) }, "CONFIG_EFI_STUB"},
		{func(in *UKIInput) { in.Stub = in.Initrd }, "not a PE program"},
		{func(in *UKIInput) { in.Initrd = "/nonexistent" }, "/nonexistent"},
		{func(in *UKIInput) { in.Cmdline = "" }, "the command line is empty"},
		{func(in *UKIInput) { in.Uname = "6\x00" }, "the version is empty or holds a zero byte"},
		{func(in *UKIInput) {
			in.Kernel = write(t, "vmlinuz", program(peSection{name: ".sbat", bytes: []byte("sbat,1,x\n" + strings.Repeat("linux,1,Linux\n", 40))}))
		}, "do not fit into the 512"},
	} {
		in := ukiInput(t)
		tt.set(&in)
		if _, _, err := UKI(context.Background(), openStore(t), in); err == nil || !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%v, want %q", err, tt.fault)
		}
	}
}

// TestUKIJudgedByOthers has ukify and objdump read the UKIs that were built, if
// there are any, or one of small parts.
func TestUKIJudgedByOthers(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	in := ukiInput(t)
	file, _, err := UKI(context.Background(), openStore(t), in)
	if err != nil {
		t.Fatal(err)
	}
	// Python has no path of its own below the tools' root.
	root := os.Getenv(toolsEnv)
	cmd := run("python3.13", filepath.Join(root, "usr/bin/ukify"), "--json=short", "inspect", file)
	cmd.Env = append(cmd.Environ(), "PYTHONHOME="+filepath.Join(root, "usr"), "PYTHONDONTWRITEBYTECODE=1")
	var sections map[string]struct {
		Size   int64
		SHA256 string
	}
	out := output(t, cmd)
	if err := json.Unmarshal([]byte(out), &sections); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, content := range map[string]string{
		".osrel": write(t, "s", in.OSRelease), ".cmdline": write(t, "s", []byte(in.Cmdline)), ".uname": write(t, "s", []byte(in.Uname)),
		".initrd": in.Initrd, ".linux": in.Kernel,
	} {
		if want, err := store.HashFile(content); err != nil || sections[name].SHA256 != want {
			t.Errorf("ukify says of %s: %+v, want %s (%v)", name, sections[name], want, err)
		}
	}
	headers := output(t, run("objdump", "-h", file))
	for _, name := range []string{".text", ".sbat", ".osrel", ".cmdline", ".uname", ".initrd", ".linux"} {
		if n := strings.Count(headers, " "+name+" "); n != 1 {
			t.Errorf("objdump shows %d sections %s:\n%s", n, name, headers)
		}
	}
	info := output(t, run("objdump", "-p", file))
	fi, err := os.Stat(file)
	if err != nil || !strings.Contains(info, "(EFI application)") {
		t.Errorf("%v, of %d bytes:\n%s", err, fi.Size(), info)
	}
	// Negative control: half of it is none.
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := run("objdump", "-s", "-j", ".linux", write(t, "half.efi", b[:600]))
	if out, err := bad.CombinedOutput(); err == nil {
		t.Errorf("objdump takes a part for the whole: %s", fmt.Sprint(len(out)))
	}
}
