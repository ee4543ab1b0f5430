package debian

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// PreloadEnv names a library that every tool has to load first, as ld.so's
// --preload has it: `garboard repro` shows them another day with libfaketime.
// LD_PRELOAD would reach the host's programs too, whose C library may be older.
const PreloadEnv = "GARBOARD_TOOL_PRELOAD"

// Command prepares a program of a root made by Tools. tool is a name that is
// looked up in usr/sbin and usr/bin, or a path below root if it has a slash.
//
// The program is started through the root's own loader with the root's own
// libraries, so it does not matter what the host has or lacks; the host's library
// cache is not consulted. argv[0] is the tool's name: multi-call programs
// (depmod is kmod) go by it. Programs that are statically linked start directly.
//
// Env is left to the caller, who knows whether the host's may reach the tool:
// LD_PRELOAD and SOURCE_DATE_EPOCH do, for example. Programs that look for data
// below /usr have to be told where it is now:
//   - qemu-system-*: -L root/usr/share/qemu, -L root/usr/share/seabios and
//     -L root/usr/lib/ipxe/qemu, and QEMU_MODULE_DIR=root/usr/lib/<triplet>/qemu
//     (a module that is not there is still looked for in the host's directory, and
//     refused with a message if the host has another QEMU's);
//   - mke2fs: MKE2FS_CONFIG;
//   - programs that convert between character sets: GCONV_PATH.
//
// Where the tool cannot be run the returned command's Err says why, and so does
// its Start or Run.
func Command(ctx context.Context, root, tool string, args ...string) *exec.Cmd {
	argv, err := toolArgv(root, tool)
	if err != nil {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Err = fmt.Errorf("tool %s: %w", tool, err)
		return cmd
	}
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	if len(argv) == 1 {
		cmd.Args[0] = tool
	}
	return cmd
}

// LibraryPath lists the directories of root that hold shared libraries, in the
// form of ld.so's --library-path: usr/lib/<triplet>, usr/lib, and directories
// below the first that hold libraries which others find by a run path (pulseaudio).
func LibraryPath(root, triplet string) (string, error) {
	base := filepath.Join(root, "usr/lib", triplet)
	dirs := []string{base, filepath.Join(root, "usr/lib")}
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "gconv" {
			continue
		}
		d := filepath.Join(base, e.Name())
		if libs, _ := filepath.Glob(filepath.Join(d, "lib*.so*")); len(libs) > 0 {
			dirs = append(dirs, d)
		}
	}
	for _, d := range dirs {
		if strings.ContainsAny(d, ":;") {
			return "", fmt.Errorf("the path %q holds a character that separates library paths: move the cache (GARBOARD_CACHE)", d)
		}
	}
	return strings.Join(dirs, ":"), nil
}

// toolArgv is the command line, without arguments, that runs the tool.
func toolArgv(root, tool string) ([]string, error) {
	file, err := findTool(root, tool)
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s is no ELF program: %w", file, err)
	}
	defer f.Close()
	interp, err := interpreter(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if interp == "" {
		return []string{file}, nil
	}
	loader := filepath.Join(root, interp)
	if _, err := os.Stat(loader); err != nil {
		return nil, fmt.Errorf("its loader is not among the tools (is libc6 in the lock?): %w", err)
	}
	triplet, err := triplet(f.Machine)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	libs, err := LibraryPath(root, triplet)
	if err != nil {
		return nil, err
	}
	argv := []string{loader, "--inhibit-cache", "--library-path", libs}
	if lib := os.Getenv(PreloadEnv); lib != "" {
		argv = append(argv, "--preload", lib)
	}
	return append(argv, "--argv0", path.Base(tool), file), nil
}

func findTool(root, tool string) (string, error) {
	if strings.Contains(tool, "/") {
		return filepath.Join(root, tool), nil
	}
	for _, d := range []string{"usr/sbin", "usr/bin"} {
		p := filepath.Join(root, d, tool)
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("it is in neither usr/sbin nor usr/bin of %s: add its package to the tools and run `garboard lock`", root)
}

func interpreter(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			return strings.TrimRight(string(b), "\x00"), err
		}
	}
	return "", nil
}

// triplet is Debian's name of the library directory of an architecture.
func triplet(m elf.Machine) (string, error) {
	switch m {
	case elf.EM_X86_64:
		return "x86_64-linux-gnu", nil
	case elf.EM_AARCH64:
		return "aarch64-linux-gnu", nil
	}
	return "", fmt.Errorf("programs for %s are not supported", m)
}
