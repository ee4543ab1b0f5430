package qemu

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	disks "garboard.local/builder/image"
	"garboard.local/builder/rootfs"
)

// A node boots over the network by the script that a build writes, through iPXE: out
// of the network card's ROM under BIOS, and as the program that UEFI's own network boot
// fetches, under the names of a release. What the script only has as comments is made
// use of: an archive and a single file, laid over /etc.
func TestVMLongIPXE(t *testing.T) {
	for _, tt := range []struct {
		name, arch string
		program    string // of iPXE; "": that in the card's ROM
	}{
		{"amd64 BIOS", AMD64, ""},
		{"amd64 UEFI", AMD64, "ipxe-amd64.efi"},
		{"arm64 UEFI", ARM64, "ipxe-arm64.efi"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := testMachine(t, "test-"+tt.arch)
			dir := t.TempDir()
			m.Netboot = &Netboot{Dir: dir, File: "boot.ipxe", BIOS: tt.program == ""}
			names := map[string]string{"vmlinuz": m.Kernel, "initramfs.img": m.Initrd}
			if tt.program != "" {
				names = map[string]string{"test-" + tt.arch + ".vmlinuz": m.Kernel, "test-" + tt.arch + ".initramfs.img": m.Initrd}
				if *toolsFlag == "" {
					t.Fatalf("no tools to take iPXE from: %s", buildFirst)
				}
				m.Netboot.File = "ipxe.efi"
				names["ipxe.efi"] = filepath.Join(*toolsFlag, "usr/lib/ipxe", tt.program)
			}
			for name, from := range names {
				if err := os.Symlink(from, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			served := map[string][]byte{"edge-7.hostname": []byte(given + "\n"), "edge-7.cpio.gz": givenPod(t)}
			script := netbootScript(t, filepath.Join(filepath.Dir(m.Kernel), "boot.ipxe"), m.Cmdline)
			served["boot.ipxe"] = script
			served["autoexec.ipxe"] = []byte("#!ipxe\ndhcp\nchain boot.ipxe\n") // what iPXE as a program looks for
			for name, content := range served {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			// The script has the image's own words; those of this run come behind what
			// systemd-stub would read, which takes the first of them along.
			m.Kernel, m.Initrd, m.Cmdline = "", "", "first"
			runBoot(t, m, "running", bootLimit, func(b *boot) error {
				if _, err := b.sees(`^garboard: `, 8*time.Minute); err != nil { // TFTP to an emulated card takes a while
					return err
				}
				t.Logf("PID 1 after %s", b.Uptime().Round(time.Second))
				if err := b.saw(`^default/given-`+given+`/hello: hello: hello from a pod on a Garboard node$`, podsCeiling); err != nil {
					return err
				}
				if err := b.verdict(podsCeiling); err != nil {
					return err
				}
				if err := b.PowerButton(b.ctx); err != nil {
					return err
				}
				return errors.Join(b.endsInOrder(false), b.judged())
			})
		})
	}
}

// netbootScript is the built script, its examples no comments any more, with what
// QEMU tells this machine in SMBIOS behind the words of the image.
func netbootScript(t *testing.T, file, cmdline string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: %s", err, buildFirst)
	}
	s := string(b)
	for _, change := range []struct {
		from, to string
		times    int
	}{
		{"# initrd ", "initrd ", 2},
		{cmdline + " ||", cmdline + " ${smbios/11.4.0:string} ||", 2}, // the first string of the structure of type 11
	} {
		if n := strings.Count(s, change.from); n != change.times {
			t.Fatalf("%s has %d times %q, want %d:\n%s", file, n, change.from, change.times, s)
		}
		s = strings.ReplaceAll(s, change.from, change.to)
	}
	return []byte(s)
}

// givenPod is an archive with the manifest of one more hello pod, which is called given.
func givenPod(t *testing.T) []byte {
	t.Helper()
	const manifests = "/etc/kubernetes/manifests/"
	hello, err := os.ReadFile("../overlays/rootfs/hello" + manifests + "hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	more := bytes.Replace(hello, []byte("\n  name: hello\n"), []byte("\n  name: given\n"), 1)
	if bytes.Equal(more, hello) {
		t.Fatalf("the hello pod's name is not where it was:\n%s", hello)
	}
	tree := rootfs.New()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	err = errors.Join(
		tree.Add(rootfs.FromBytes(manifests+"given.yaml", 0o644, more, "test", "test")),
		disks.WriteCPIO(z, tree, time.Unix(0, 0)), z.Close())
	if err != nil {
		t.Fatal(fmt.Errorf("archive: %w", err))
	}
	return out.Bytes()
}
