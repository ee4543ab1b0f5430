package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// CommandFunc makes the command that runs a tool by its base name
// ("qemu-system-x86_64"), found wherever the maker of the function keeps it.
type CommandFunc func(ctx context.Context, tool string, args ...string) *exec.Cmd

// Tool is a QEMU that can be started.
type Tool struct {
	Command  CommandFunc
	Origin   string // where it comes from, for messages
	Version  Version
	Args     []string // put before all others: -L directories
	Env      []string // added to the environment
	Firmware string   // UEFI image, where the architecture needs one
	UEFI     string   // UEFI image to boot disks with; "" if there is none
}

// MinVersion is the oldest QEMU taken from the host. QEMU 7.2 (Debian 12) has
// a known fault: its multi-threaded TCG now and then makes the guest kernel
// trip over its own code patching (see Int3Signature: 3 of 17 boots; 0 of 14
// with 10.0). 8.2 is the next version that a supported distribution ships
// (Ubuntu 24.04); whatever is older is replaced by the pinned one.
var MinVersion = Version{8, 2}

// Version is QEMU's major and minor version.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Before reports whether v is older than w.
func (v Version) Before(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

var versionLine = regexp.MustCompile(`(?m)^QEMU emulator version (\d{1,4})\.(\d{1,4})`)

// ParseVersion reads the output of qemu-system-* --version.
func ParseVersion(output string) (Version, error) {
	m := versionLine.FindStringSubmatch(output)
	if m == nil {
		return Version{}, fmt.Errorf("no line %q in %q", "QEMU emulator version N.N", output)
	}
	major, _ := strconv.Atoi(m[1]) // four digits at most
	minor, _ := strconv.Atoi(m[2])
	return Version{major, minor}, nil
}

// Binary is the base name of the emulator for an architecture.
func Binary(arch string) string {
	if arch == ARM64 {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// ErrHostTool says that the host has no QEMU that is fit; the message says why.
var ErrHostTool = errors.New("no fit QEMU on this machine")

// HostTool is the QEMU in PATH, if it is at least as new as min. Otherwise the
// error wraps ErrHostTool, and PinnedTool is the way.
func HostTool(ctx context.Context, arch string, min Version) (Tool, error) {
	path, err := exec.LookPath(Binary(arch))
	if err != nil {
		return Tool{}, fmt.Errorf("%w: %w", ErrHostTool, err)
	}
	t := Tool{
		Origin: "host " + path,
		Command: func(ctx context.Context, tool string, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, tool, args...)
		},
	}
	if t.Version, err = t.version(ctx, arch); err != nil {
		return Tool{}, fmt.Errorf("%w: %w", ErrHostTool, err)
	}
	if t.Version.Before(min) {
		return Tool{}, fmt.Errorf("%w: %s is version %s, older than %s", ErrHostTool, path, t.Version, min)
	}
	t.UEFI = Firmware(arch, "/")
	if arch == ARM64 {
		if t.Firmware = t.UEFI; t.Firmware == "" {
			return Tool{}, fmt.Errorf("%w: %s is there but UEFI firmware for it is not (package qemu-efi-aarch64)", ErrHostTool, path)
		}
	}
	return t, nil
}

// PinnedTool is a QEMU unpacked from packages below root, which command knows
// how to run (its own loader and libraries). QEMU is told where its data and
// its loadable modules are, since both paths are built into it.
func PinnedTool(ctx context.Context, arch, root string, command CommandFunc) (Tool, error) {
	t := Tool{Command: command, Origin: "pinned " + root}
	for _, d := range []string{"usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"} {
		if dir := filepath.Join(root, d); isDir(dir) {
			t.Args = append(t.Args, "-L", dir)
		}
	}
	if len(t.Args) == 0 {
		return Tool{}, fmt.Errorf("pinned QEMU: %s has no usr/share/qemu: unpack qemu-system-data and seabios there", root)
	}
	modules, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu/qemu")) // the pattern is well-formed
	if len(modules) > 0 {
		t.Env = append(t.Env, "QEMU_MODULE_DIR="+modules[0])
	}
	t.UEFI = Firmware(arch, root)
	if arch == ARM64 {
		if t.Firmware = t.UEFI; t.Firmware == "" {
			return Tool{}, fmt.Errorf("pinned QEMU: no UEFI firmware for arm64 below %s: unpack qemu-efi-aarch64 there", root)
		}
	}
	var err error
	t.Version, err = t.version(ctx, arch)
	return t, err
}

// Firmware is the UEFI image below root that QEMU takes with -bios (code and
// variables in one file), where distributions put it, or "".
func Firmware(arch, root string) string {
	names := []string{"usr/share/ovmf/OVMF.fd", "usr/share/OVMF/OVMF.fd", "usr/share/edk2/ovmf/OVMF.fd", "usr/share/edk2/x64/OVMF.4m.fd"}
	if arch == ARM64 {
		names = []string{"usr/share/qemu-efi-aarch64/QEMU_EFI.fd", "usr/share/AAVMF/AAVMF_CODE.no-secboot.fd", "usr/share/AAVMF/AAVMF_CODE.fd"}
	}
	for _, n := range names {
		p := filepath.Join(root, n)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p
		}
	}
	return ""
}

func (t Tool) version(ctx context.Context, arch string) (Version, error) {
	cmd := t.Command(ctx, Binary(arch), "--version")
	cmd.Env = append(cmd.Environ(), t.Env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return Version{}, fmt.Errorf("%s --version (%s): %w", Binary(arch), t.Origin, err)
	}
	v, err := ParseVersion(string(out))
	if err != nil {
		return Version{}, fmt.Errorf("%s --version (%s): %w", Binary(arch), t.Origin, err)
	}
	return v, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
