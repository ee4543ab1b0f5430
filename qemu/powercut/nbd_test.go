package powercut

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// client speaks the protocol from the other side, bytes written out.
type client struct {
	t *testing.T
	net.Conn
}

func (c client) send(values ...any) {
	c.t.Helper()
	var b bytes.Buffer
	if err := put(&b, values...); err != nil {
		c.t.Fatal(err)
	}
	// In one piece: a disk without power hangs up as soon as it has read it.
	if _, err := c.Write(b.Bytes()); err != nil {
		c.t.Fatal(err)
	}
}

func (c client) expect(values ...any) {
	c.t.Helper()
	var want bytes.Buffer
	if err := put(&want, values...); err != nil {
		c.t.Fatal(err)
	}
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		c.t.Fatalf("got %x (%v), want %x", got, err, want.Bytes())
	}
}

func (c client) request(kind, flags uint16, off uint64, length uint32, data []byte) {
	c.t.Helper()
	c.send(uint32(magicRequest), flags, kind, uint64(77), off, length, data)
}

func dial(t *testing.T, d *Disk) client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{t, conn}
}

func TestServe(t *testing.T) {
	d := newDisk(t)
	c := dial(t, d)
	c.expect([]byte("NBDMAGICIHAVEOPT"), uint16(3))
	c.send(uint32(3))
	// An option it does not know, then GO with a name and one wish.
	c.send([]byte("IHAVEOPT"), uint32(8), uint32(0))
	c.expect(uint64(magicReply), uint32(8), uint32(0x80000001), uint32(0))
	c.send([]byte("IHAVEOPT"), uint32(7), uint32(12), uint32(4), []byte("disk"), uint16(1), uint16(3))
	c.expect(uint64(magicReply), uint32(7), uint32(3), uint32(12), uint16(0), uint64(testSize), uint16(13))
	c.expect(uint64(magicReply), uint32(7), uint32(1), uint32(0))

	done := func(code uint32) { t.Helper(); c.expect(uint32(magicSimple), code, uint64(77)) }
	c.request(cmdWrite, 0, 2*Sector, 2*Sector, fill(1, 2))
	done(0)
	c.request(cmdFlush, 0, 0, 0, nil)
	done(0)
	c.request(cmdWrite, 0, 0, Sector, fill(2, 1))
	done(0)
	c.request(cmdWrite, cmdFUA, 9*Sector, Sector, fill(3, 1))
	done(0)
	c.request(cmdRead, 0, 0, 3*Sector, nil)
	done(0)
	c.expect(append(append(fill(2, 1), fill(0, 1)...), fill(1, 1)...))
	c.request(cmdRead, 0, testSize, Sector, nil)
	done(errInvalid)
	c.request(4, 0, 0, Sector, nil) // TRIM was not offered
	done(errInvalid)
	if s := d.Stats(); s.Writes != 3 || s.Flushes != 1 || s.Bytes != 4*Sector {
		t.Errorf("%+v", s)
	}
	d.Freeze()
	c.request(cmdFlush, 0, 0, 0, nil)
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("a disk without power answers %d bytes, %v", n, err)
	}
	if _, err := d.Cut(Nothing, rng(1)); err != nil {
		t.Fatal(err)
	}
	got := sectorsOf(t, d)[:10]
	if want := []byte{0, 0, 1, 1, 0, 0, 0, 0, 0, 3}; !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestServeExportName(t *testing.T) {
	c := dial(t, newDisk(t))
	c.expect([]byte("NBDMAGICIHAVEOPT"), uint16(3))
	c.send(uint32(1)) // an old client that wants the zeroes
	c.send([]byte("IHAVEOPT"), uint32(1), uint32(1), []byte("x"))
	c.expect(uint64(testSize), uint16(13), make([]byte, 124))
}

type script struct {
	io.Reader
	io.Writer
}

// Whatever a peer sends, it neither panics nor takes more memory than a request
// may have.
func FuzzServe(f *testing.F) {
	var b bytes.Buffer
	be := func(values ...any) { _ = put(&b, values...) }
	be(uint32(3), []byte("IHAVEOPT"), uint32(7), uint32(6), uint32(0), uint16(0))
	be(uint32(magicRequest), uint16(0), uint16(1), uint64(1), uint64(0), uint32(Sector), fill(1, 1))
	be(uint32(magicRequest), uint16(0), uint16(0), uint64(1), uint64(0), uint32(Sector))
	f.Add(b.Bytes())
	f.Add(binary.BigEndian.AppendUint32(nil, 0))
	d, err := Create(f.TempDir(), testSize)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { d.Close() })
	f.Fuzz(func(t *testing.T, in []byte) {
		d.On()
		if err := d.serve(script{bytes.NewReader(in), io.Discard}); err == nil {
			t.Error("a connection ended without an end")
		}
		if _, err := d.Cut(Nothing, rng(1)); err != nil {
			t.Error(err)
		}
	})
}
