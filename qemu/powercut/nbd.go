package powercut

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The protocol's numbers; doc/proto.md of the NBD project.
const (
	magicServer  = 0x4e42444d41474943 // "NBDMAGIC"
	magicOption  = 0x49484156454f5054 // "IHAVEOPT"
	magicReply   = 0x0003e889045565a9
	magicRequest = 0x25609513
	magicSimple  = 0x67446698

	handFixed, handNoZeroes = 1, 2

	optExportName, optAbort, optInfo, optGo = 1, 2, 6, 7

	repAck, repInfo           = 1, 3
	repUnsupported, repBroken = 1<<31 + 1, 1<<31 + 3
	infoExport                = 0

	flagsExport = 1 | 4 | 8 // has flags, takes FLUSH, takes FUA

	cmdRead, cmdWrite, cmdDisconnect, cmdFlush = 0, 1, 2, 3
	cmdFUA                                     = 1

	errIO, errInvalid = 5, 22
	maxOption         = 4096     // bytes; names are at most that long
	maxRequest        = 32 << 20 // bytes, the protocol's default limit
)

// Serve answers one machine after another that connects to the socket, until
// l is closed. A connection ends when the disk's power goes.
func (d *Disk) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = d.serve(c) // a machine that is killed breaks off; what it got is on its side
		}()
	}
}

// URL names the disk behind a socket in QEMU's way (qemu(1), "nbd").
func URL(socket string) string { return "nbd+unix:///disk?socket=" + socket }

func (d *Disk) serve(c io.ReadWriter) error {
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
	if err := d.negotiate(r, w); err != nil {
		return err
	}
	for {
		if err := d.request(r, w); err != nil {
			return err
		}
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

func put(w io.Writer, values ...any) error {
	for _, v := range values {
		if err := binary.Write(w, binary.BigEndian, v); err != nil {
			return err
		}
	}
	return nil
}

// negotiate is the fixed newstyle handshake. It returns nil when the machine
// has chosen the export, whatever it calls it.
func (d *Disk) negotiate(r io.Reader, w *bufio.Writer) error {
	err := put(w, uint64(magicServer), uint64(magicOption), uint16(handFixed|handNoZeroes))
	if err := errors.Join(err, w.Flush()); err != nil {
		return err
	}
	var client uint32
	if err := binary.Read(r, binary.BigEndian, &client); err != nil {
		return err
	}
	for {
		var head struct {
			Magic       uint64
			Option, Len uint32
		}
		if err := binary.Read(r, binary.BigEndian, &head); err != nil {
			return err
		}
		if head.Magic != magicOption || head.Len > maxOption {
			return fmt.Errorf("NBD: option with magic %#x and %d bytes", head.Magic, head.Len)
		}
		data := make([]byte, head.Len)
		if _, err := io.ReadFull(r, data); err != nil {
			return err
		}
		reply := func(kind uint32, data ...any) error {
			size := 0
			for _, v := range data {
				size += binary.Size(v)
			}
			return put(w, append([]any{uint64(magicReply), head.Option, kind, uint32(size)}, data...)...)
		}
		var err error
		done := false
		switch head.Option {
		case optExportName:
			err, done = put(w, uint64(d.size), uint16(flagsExport)), true
			if client&handNoZeroes == 0 {
				err = errors.Join(err, put(w, make([]byte, 124)))
			}
		case optInfo, optGo:
			if len(data) < 6 || uint64(binary.BigEndian.Uint32(data)) > uint64(len(data)-6) {
				err = reply(repBroken)
				break
			}
			err = errors.Join(reply(repInfo, uint16(infoExport), uint64(d.size), uint16(flagsExport)), reply(repAck))
			done = head.Option == optGo
		case optAbort:
			return errors.Join(reply(repAck), w.Flush(), io.EOF)
		default:
			err = reply(repUnsupported)
		}
		if err := errors.Join(err, w.Flush()); err != nil || done {
			return err
		}
	}
}

// request carries out one. An error ends the connection: the machine left, or
// the power went, and then nobody answers.
func (d *Disk) request(r io.Reader, w io.Writer) error {
	var q struct {
		Magic       uint32
		Flags, Type uint16
		Handle      uint64
		Off         uint64
		Len         uint32
	}
	if err := binary.Read(r, binary.BigEndian, &q); err != nil {
		return err
	}
	if q.Magic != magicRequest {
		return fmt.Errorf("NBD: request with magic %#x", q.Magic)
	}
	if q.Len > maxRequest && q.Type <= cmdWrite {
		return fmt.Errorf("NBD: request for %d bytes", q.Len)
	}
	var data []byte
	var err error
	switch q.Type {
	case cmdRead:
		data = make([]byte, q.Len)
		_, err = d.ReadAt(data, int64(q.Off))
	case cmdWrite:
		in := make([]byte, q.Len)
		if _, err := io.ReadFull(r, in); err != nil {
			return err
		}
		err = d.WriteAt(in, int64(q.Off), q.Flags&cmdFUA != 0)
	case cmdFlush:
		err = d.Flush()
	case cmdDisconnect:
		return io.EOF
	default:
		err = errors.ErrUnsupported
	}
	code := uint32(0)
	switch {
	case errors.Is(err, ErrOff):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errors.ErrUnsupported):
		code, data = errInvalid, nil
	case err != nil:
		code, data = errIO, nil
	}
	if err := put(w, uint32(magicSimple), code, q.Handle); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
