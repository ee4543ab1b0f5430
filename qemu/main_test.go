package qemu

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"garboard.local/builder/source/debian"
)

// Tests whose names begin with TestVM boot machines. They need what a build
// made and a QEMU; without either they fail and say what to do. With -short
// they are left out; those that begin with TestVMLong are for make test-full.
var (
	imagesFlag = flag.String("garboard.images", os.Getenv("GARBOARD_IMAGES"),
		"directory with node-amd64 and test-amd64, as garboard build writes it (or GARBOARD_IMAGES)")
	toolsFlag = flag.String("garboard.tools", os.Getenv("GARBOARD_TOOLS"),
		"tree of unpacked Debian packages with QEMU, used if the host's is too old (or GARBOARD_TOOLS)")
	longFlag = flag.Bool("garboard.long", os.Getenv("GARBOARD_LONG") != "", "also the tests that CI has no time for, TestVMLong* (or GARBOARD_LONG)")
	hostFlag = flag.Bool("garboard.hostqemu", false, "the host's QEMU whatever its version")
)

// emulatorFaults counts the runs that were repeated for Int3Signature or TimerSignature.
var emulatorFaults int

func TestMain(m *testing.M) {
	flag.Parse()
	var left []string
	if given := flag.Lookup("test.skip").Value.String(); given != "" {
		left = append(left, given)
	}
	if testing.Short() {
		left = append(left, "^TestVM")
	} else if !*longFlag {
		left = append(left, "^TestVMLong")
	}
	if err := flag.Set("test.skip", strings.Join(left, "|")); err != nil {
		panic(err)
	}
	code := m.Run()
	if !testing.Short() {
		fmt.Printf("emulator faults (%s, %s): %d runs repeated\n", Int3Signature, TimerSignature, emulatorFaults)
	}
	os.Exit(code)
}

const buildFirst = "run `go run ./cmd/garboard test node`, which builds the images and finds QEMU " +
	"(by hand: garboard build, then GARBOARD_IMAGES=$PWD/out go test ./qemu); with -short no machine is booted"

// testTool finds QEMU as garboard run does.
func testTool(t *testing.T, arch string) Tool {
	t.Helper()
	min := MinVersion
	if *hostFlag {
		min = Version{}
	}
	tool, err := HostTool(t.Context(), AMD64, min)
	if errors.Is(err, ErrHostTool) && *toolsFlag != "" {
		tool, err = PinnedTool(t.Context(), arch, *toolsFlag, func(ctx context.Context, name string, args ...string) *exec.Cmd {
			return debian.Command(ctx, *toolsFlag, name, args...)
		})
	}
	if err != nil {
		t.Fatalf("%v: %s", err, buildFirst)
	}
	if tool.UEFI == "" && *toolsFlag != "" { // a host with QEMU and without ovmf
		tool.UEFI = Firmware(arch, *toolsFlag)
	}
	return tool
}

// testMachine is a machine that boots what was built from a recipe.
func testMachine(t *testing.T, image string) Machine {
	t.Helper()
	if *imagesFlag == "" {
		t.Fatalf("no images: %s", buildFirst)
	}
	dir := filepath.Join(*imagesFlag, image)
	arch := image[strings.LastIndexByte(image, '-')+1:] // node-amd64
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		t.Fatalf("%v: %s", err, buildFirst)
	}
	return Machine{
		Name: t.Name(), Arch: arch, Tool: testTool(t, arch), MemoryMiB: 2048, CPUs: 2,
		Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initramfs.img"),
		Cmdline: strings.TrimSpace(string(cmdline)),
	}
}

// boot is one run of a machine under test.
type boot struct {
	*VM
	t        *testing.T
	ctx      context.Context
	nonce    string
	scenario string
}

// runBoot starts the machine for a scenario and lets story say what must
// happen. Only the emulator's known fault makes it do so again.
func runBoot(t *testing.T, m Machine, scenario string, ceiling time.Duration, story func(*boot) error) {
	t.Helper()
	cmdline := m.Cmdline
	if !strings.Contains(cmdline, "garboard.console=") { // a recipe may show something else
		cmdline += " garboard.console=pods"
	}
	faults, err := Repeat(2, t.Logf, func() (err error) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), ceiling, fmt.Errorf("not within the boot's %s", ceiling))
		defer cancel()
		nonce := strings.ToLower(rand.Text())
		m.Cmdline = fmt.Sprintf("%s garboard.test=%s garboard.nonce=%s", cmdline, scenario, nonce)
		m.Log = filepath.Join(t.ArtifactDir(), "console.log")
		vm, err := m.Start(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, vm.Close()) }()
		t.Logf("QEMU %s, %s, accelerator %s", m.Tool.Version, m.Tool.Origin, vm.Accel)
		return story(&boot{VM: vm, t: t, ctx: ctx, nonce: nonce, scenario: scenario})
	})
	emulatorFaults += faults
	if err != nil {
		t.Fatal(err)
	}
}

// sees waits for a line of the console.
func (b *boot) sees(expr string, within time.Duration) (Match, error) {
	ctx, cancel := context.WithTimeoutCause(b.ctx, within, fmt.Errorf("not within %s", within))
	defer cancel()
	return b.Expect(ctx, regexp.MustCompile(expr))
}

// ends waits for the machine to end by itself.
func (b *boot) ends(within time.Duration) (Exit, error) {
	select {
	case <-b.Done():
		return b.Wait(), nil
	case <-time.After(within):
		return Exit{}, b.Console.Failure(nil, "the machine still ran after %s", within)
	}
}

// verdict waits for the tester's word.
func (b *boot) verdict(within time.Duration) error {
	_, err := b.sees(`/tester: GARBOARD-VERDICT `, within)
	return err
}

// judged demands the verdict of this run, and that the same console would be
// refused for any other run.
func (b *boot) judged() error {
	lines := b.Console.Lines()
	if err := Judge(lines, b.nonce, b.scenario); err != nil {
		return b.Console.Failure(err, "verdict")
	}
	if Judge(lines, b.nonce+"x", b.scenario) == nil || Judge(lines, b.nonce, b.scenario+"x") == nil {
		return errors.New("the harness takes this console for another run's, too")
	}
	return nil
}
