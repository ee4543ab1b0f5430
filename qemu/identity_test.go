package qemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"testing"
	"time"
)

// A node gets its name from DHCP before its kubelet starts and its time from a
// server on the network, on a machine whose clock stands in 1999.
func TestVMNameAndTimeFromTheNetwork(t *testing.T) {
	m := testMachine(t, "test-amd64")
	// The day after tomorrow: no clock of the test is right by chance.
	port := timeServer(t, 48*time.Hour)
	m.Tool.Args = append(slices.Clone(m.Tool.Args), "-rtc", "base=1999-12-31T23:00:00",
		"-netdev", "user,id=named,net=10.9.0.0/24,hostname=edge-7", "-device", "virtio-net-pci,netdev=named,romfile=")
	m.Cmdline += fmt.Sprintf(" garboard.hostname.wait=1m garboard.ntp=10.0.2.2:%d", port)
	runBoot(t, m, "running", bootLimit, func(b *boot) error {
		if _, err := b.sees(`^garboard: clock: 1999-12-31T23:.* is before this image was built, set to `, podsCeiling); err != nil {
			return err
		}
		// Either may come first.
		for _, line := range []string{`^garboard: hostname edge-7, from DHCP on `, `^garboard: clock: set by .* from 10\.0\.2\.2:`, `^default/hello-edge-7/hello: hello: hello from`} {
			if err := b.saw(line, podsCeiling); err != nil {
				return err
			}
		}
		want := time.Now().Add(48 * time.Hour).UTC().Format("2006-01-02")
		if err := b.saw(`^garboard: clock: set by .* to `+want, time.Second); err != nil {
			return err
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		if err := b.endsInOrder(false); err != nil {
			return err
		}
		return b.judged()
	})
}

// saw waits for a line that may have come already.
func (b *boot) saw(expr string, within time.Duration) error {
	deadline := time.Now().Add(within)
	re := regexp.MustCompile(expr)
	shown := func() bool {
		return slices.ContainsFunc(b.Console.Lines(), func(l Line) bool { return re.MatchString(l.Message) })
	}
	for {
		if shown() {
			return nil
		}
		select {
		case <-b.Done():
			if shown() { // said since the last look
				return nil
			}
			return b.Console.Failure(nil, "the machine ended while %q was waited for", expr)
		case <-b.ctx.Done():
			return b.Console.Failure(b.ctx.Err(), "%q did not come", expr)
		case <-time.After(250 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return b.Console.Failure(nil, "%q did not come within %s", expr, within)
		}
	}
}

// timeServer answers SNTP on loopback with a clock that is ahead; it returns its port.
func timeServer(t *testing.T, ahead time.Duration) int {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil || n < 48 {
				continue
			}
			d := time.Since(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)) + ahead
			now := uint64(d/time.Second)<<32 | uint64(d%time.Second)<<32/uint64(time.Second)
			out := make([]byte, 48)
			out[0], out[1], out[2], out[3] = 4<<3|4, 2, 6, 0xec // version 4, server, stratum 2
			copy(out[24:32], b[40:48])
			for _, at := range []int{16, 32, 40} {
				binary.BigEndian.PutUint64(out[at:], now)
			}
			if _, err := c.WriteTo(out, from); err != nil {
				t.Log(err)
			}
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).Port
}
