package qemu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"garboard.local/builder/lock"
)

// Ceilings of a boot under emulation on a loaded machine; a quiet one needs
// less than a third.
const (
	podsCeiling = 3 * time.Minute
	endCeiling  = 2 * time.Minute
	bootLimit   = 12 * time.Minute
)

// eachArch runs a test for every architecture: what works on one only does not work.
func eachArch(t *testing.T, f func(t *testing.T, arch string)) {
	for _, arch := range []string{AMD64, ARM64} {
		t.Run(arch, func(t *testing.T) { f(t, arch) })
	}
}

// podLine is an expression for a line of a static pod with this name.
func podLine(pod, text string) string {
	return `^default/` + pod + `-[a-z0-9.-]+/` + pod + `: ` + text
}

// endsInOrder demands the one shutdown path: asked for, then the pod
// that needs three seconds is let finish, then the node's own word, then the
// end that was asked for.
func (b *boot) endsInOrder(reset bool) error {
	last := "garboard: power-off"
	if reset {
		last = "garboard: reboot"
	}
	for _, line := range []string{
		`^garboard: shutdown requested by `,
		podLine("sigterm", "sigterm: SIGTERM, needs 3s$"),
		podLine("sigterm", "sigterm: finished$"),
		`^garboard: shutdown: clean$`,
		`^` + last,
	} {
		if _, err := b.sees(line, endCeiling); err != nil {
			return err
		}
	}
	exit, err := b.ends(endCeiling)
	if err != nil {
		return err
	}
	if exit.Panicked || exit.Err != nil || exit.GuestReset != reset || exit.GuestShutdown == reset {
		return b.Console.Failure(nil, "the machine ended by %+v, want reset %t", exit, reset)
	}
	return nil
}

// The node image runs its hello pod, with what archives behind the initramfs lay
// over /etc, and `garboard run` says that it went well.
func TestVMNodeRunsHello(t *testing.T) { eachArch(t, nodeRunsHello) }

func nodeRunsHello(t *testing.T, arch string) {
	m := testMachine(t, "node-"+arch)
	m.Initrd = withArchives(t, m.Initrd)
	m.Cmdline += " garboard.console=pods"
	var out bytes.Buffer
	signals := make(chan os.Signal, 1)
	m.Output = func(l Line) {
		if p, ok := l.Pod(); ok && strings.HasPrefix(p.Text, "hello: running as pod ") {
			select {
			case signals <- os.Interrupt: // as if a person pressed ctrl-C now
			default:
			}
		}
	}
	err := Run(t.Context(), RunOptions{Machine: m, Out: &out, For: 5 * time.Minute, Signals: signals, Repeats: 2})
	emulatorFaults += strings.Count(out.String(), "garboard run: "+string(FaultEmulator))
	if err != nil {
		t.Fatalf("%v\nwhole output:\n%s", err, out.String())
	}
	for _, want := range []string{": hello: hello from a pod on a Garboard node\n", ": hello: SIGTERM, bye\n", "default/hello-" + given + "/given: ", "garboard: shutdown: clean\n", "garboard run: clean: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the run's output lacks %q:\n%s", want, out.String())
		}
	}
}

// Everything that is said of a running node, and power-off by socket command 0x01.
func TestVMNodeKeepsItsPromises(t *testing.T) { eachArch(t, nodeKeepsItsPromises) }

func nodeKeepsItsPromises(t *testing.T, arch string) { keepsItsPromises(t, "test-"+arch, "crio") }

func keepsItsPromises(t *testing.T, image, runtime string) {
	m := testMachine(t, image)
	m.MemoryMiB = 3072
	tester, kubelet, readOnly := freePort(t), freePort(t), freePort(t)
	m.Forwards = []Forward{{tester, 18080}, {kubelet, 10250}, {readOnly, 10255}}
	runBoot(t, m, "node", bootLimit, func(b *boot) error {
		mode, err := b.sees(podLine("seccomp", `seccomp: (\d)$`), podsCeiling)
		if err != nil {
			return err
		}
		if mode.Groups[1] != "2" {
			t.Errorf("the RuntimeDefault pod runs with Seccomp: %s, want 2, a filter", mode.Groups[1])
		}
		if _, err := b.sees(podLine("tester", "tester: listening for the host"), podsCeiling); err != nil {
			return err
		}
		if runtime == "crio" { // the rules are those of node.yaml
			if err := nodeIsAsDocumented(t, tester, image); err != nil {
				return b.Console.Failure(err, "the node's contents")
			}
		}
		if err := lookFromOutside(tester, kubelet, readOnly); err != nil {
			return b.Console.Failure(err, "the node's ports from outside")
		}
		if err := b.verdict(8 * time.Minute); err != nil {
			return err
		}
		if err := b.endsInOrder(false); err != nil {
			return err
		}
		said := ""
		for _, l := range b.Console.Lines() {
			if p, ok := l.Pod(); ok && p.Container == "tester" {
				t.Log(p.Text)
				said += p.Text + "\n"
			}
		}
		for name, locked := range lockedVersions(t, image, runtime) {
			if want := "tester: version of " + name + ": " + locked + "\n"; !strings.Contains(said, want) {
				t.Errorf("the node does not say %q", want)
			}
		}
		return b.judged()
	})
}

// lockedVersions are the versions that the image's lock says kubelet and runtime have.
func lockedVersions(t *testing.T, image, runtime string) map[string]string {
	t.Helper()
	l, err := lock.Read(filepath.Join(*imagesFlag, image, lock.FileName))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"kubelet": l.Components["kubelet"].Version, runtime: l.Components[runtime].Version}
}

// lookFromOutside reaches the tester through one forward, so that silence on
// the others means a closed port and not a dead network.
func lookFromOutside(tester int, closed ...int) error {
	if answer, err := exchange(tester, ""); err != nil || !strings.HasPrefix(answer, "garboard tester") {
		return fmt.Errorf("the tester cannot be reached, so closed ports prove nothing: %q, %v", answer, err)
	}
	for _, port := range closed {
		// QEMU accepts the connection itself; what counts is an answer from the
		// guest. A TLS server answers plain text, too: with an alert or a 400.
		answer, err := exchange(port, "GET /pods HTTP/1.0\r\n\r\n")
		if answer != "" {
			return fmt.Errorf("the kubelet answers on a port that must be closed: %q (%v)", answer, err)
		}
	}
	_, err := exchange(tester, "probed\n")
	return err
}

// exchange sends text and returns what comes back.
func exchange(port int, text string) (string, error) {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c, 4096))
	return string(answer), err
}

// freePort is a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// The other ways down lead to the same path.
func TestVMWaysDown(t *testing.T) { eachArch(t, waysDown) }

func waysDown(t *testing.T, arch string) {
	for _, tt := range []struct {
		name     string
		scenario string
		refused  string // the verdict is FAIL with this reason
		reset    bool
		act      func(*boot) error
	}{
		{"power button", "running", "", false, func(b *boot) error { return b.PowerButton(b.ctx) }},
		// The same boot shows that a real tester's FAIL is not taken for success.
		{"ctrl-alt-del", "refuse", "refused on purpose", true, func(b *boot) error { return b.CtrlAltDel(b.ctx) }},
		{"SIGTERM to PID 1", "sigterm-init", "", false, func(*boot) error { return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runBoot(t, testMachine(t, "test-"+arch), tt.scenario, bootLimit, func(b *boot) error {
				if err := b.verdict(podsCeiling); err != nil {
					return err
				}
				if err := tt.act(b); err != nil {
					return err
				}
				if err := b.endsInOrder(tt.reset); err != nil {
					return err
				}
				err := b.judged()
				if tt.refused == "" {
					return err
				}
				if err == nil || !strings.Contains(err.Error(), "the guest says FAIL: "+tt.refused) {
					return errors.Join(errors.New("a FAIL verdict was not refused"), err)
				}
				return nil
			})
		})
	}
}
