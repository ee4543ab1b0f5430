package qemu

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
	"github.com/willscott/go-nfs/helpers/memfs"
)

// nfsServer is a real NFS server on loopback that can fall silent: its connections
// stay open and nothing is read from them any more.
type nfsServer struct {
	net.Listener
	silence chan struct{}
	fall    func()
}

func newNFSServer(t *testing.T) *nfsServer {
	t.Helper()
	files := memfs.New()
	for _, name := range []string{"file", "other"} {
		f, err := files.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silence := make(chan struct{})
	s := &nfsServer{l, silence, sync.OnceFunc(func() { close(silence) })}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); l.Close() })
	go (&nfs.Server{Handler: helpers.NewCachingHandler(helpers.NewNullAuthHandler(files), 64), Context: ctx}).Serve(s)
	return s
}

func (s *nfsServer) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &silentConn{c, s.silence}, nil
}

// silentConn reads nothing more once there is silence.
type silentConn struct {
	net.Conn
	silence <-chan struct{}
}

func (c *silentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.silence: // what came is not answered, and the connection stays
		select {}
	default:
	}
	return n, err
}

// A network file system's server falls silent while a process waits for it: the node
// powers off within its ceiling, says what hung, and its own disk is clean.
func TestVMLongSilentServer(t *testing.T) {
	d := newImage(t, 512*mib)
	server := newNFSServer(t)
	m := testMachine(t, "test-amd64")
	m.Disks = []Disk{{Path: d.path}}
	m.Cmdline += fmt.Sprintf(" garboard.data=/dev/vda garboard.nfs=%d", server.Addr().(*net.TCPAddr).Port)
	runBoot(t, m, "silent-server", bootLimit, func(b *boot) error {
		if _, err := b.sees(podLine("tester", `tester: the server took a write$`), podsCeiling); err != nil {
			return err
		}
		server.fall()
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		return b.endsWithinCeiling(`shutdown: sync of /var/lib/kubelet/tester/network volume \(nfs on `,
			`shutdown: unclean: .*/network volume \(nfs on 10.0.2.2:/\) could neither be unmounted`)
	})
	d.clean()
}

// The disk of the logs and of everything else becomes read-only: PID 1 says so, and
// the node powers off in the same way.
func TestVMLongReadOnlyDisk(t *testing.T) {
	d := newImage(t, 512*mib)
	m := testMachine(t, "test-amd64")
	m.Disks = []Disk{{Path: d.path}}
	m.Cmdline += " garboard.data=/dev/vda"
	runBoot(t, m, "read-only", bootLimit, func(b *boot) error {
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		if _, err := b.sees(`^garboard: log of \w+: .*read-only file system; the last \d+ KiB are kept in memory`, podsCeiling); err != nil {
			return err
		}
		return b.endsWithinCeiling()
	})
	d.clean()
}

// endsWithinCeiling waits for a shutdown that was asked for by the guest: a power-off
// within the ceiling of docs/init.md, clean or not, with these lines; it shows what
// PID 1 said of it.
func (b *boot) endsWithinCeiling(want ...string) error {
	if _, err := b.sees(`^garboard: shutdown requested by `, endCeiling); err != nil {
		return err
	}
	asked := time.Now()
	for _, line := range want {
		if _, err := b.sees("^garboard: "+line, ceilingOfTheNode); err != nil {
			return err
		}
	}
	exit, err := b.ends(ceilingOfTheNode + 30*time.Second)
	if err != nil {
		return err
	}
	took := time.Since(asked).Round(time.Second)
	down := false
	for _, l := range b.Console.Lines() {
		own, _ := l.Own()
		if down = down || strings.HasPrefix(own, "shutdown requested by "); true && down {
			b.t.Log(l.Text)
		}
	}
	if !exit.GuestShutdown || exit.Panicked || took > ceilingOfTheNode {
		return b.Console.Failure(nil, "the machine ended by %+v after %s", exit, took)
	}
	b.t.Logf("off %s after it was asked", took)
	return b.judged()
}
