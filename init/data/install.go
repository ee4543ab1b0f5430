package data

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// Installing copies the ESP of the ISO that a node was started from to a disk, with
// the partitions that a disk image has; see docs/decisions/0022-iso.md.

// Unfinished is the type of the partition that becomes the ESP, until it is whole:
// firmware does not boot from it, and who finds it may begin again.
const Unfinished = gpt.Type("4C9E8F2A-7B1D-4E63-9A05-D2C1F36E8B70")

// Installed is a partition of a disk that a node installs itself to, in MiB. Size 0
// stands for what is left.
type Installed struct {
	Number      int
	Name        string
	Type        gpt.Type
	Start, Size int64
}

// espNumber is the ESP's number among them.
const espNumber = 2

// InstalledLayout is that of a disk image with the default sizes.
func InstalledLayout(arch string) ([]Installed, error) {
	root, ok := map[string]gpt.Type{"amd64": gpt.LinuxRootX86_64, "arm64": gpt.LinuxRootArm64}[arch]
	if !ok {
		return nil, fmt.Errorf("there is no root partition type for architecture %q", arch)
	}
	return []Installed{
		{1, "bios-boot", gpt.BIOSBoot, 1, 1},
		{espNumber, "esp", gpt.EFISystemPartition, 2, 512},
		{3, "root-a", root, 514, 512},
		{4, "root-b", root, 1026, 512},
		{5, label, Type, 1538, 0},
	}, nil
}

// Install says what to install to where.
type Install struct {
	Target string // as garboard.data= has it: /dev/NAME or serial=NUMBER
	Arch   string
	Force  bool // whatever the target holds
}

// Install makes the target a disk that boots into this node. What was cut short may
// be done again; the target is not bootable before all of it is written.
func (m *Manager) Install(ctx context.Context, in Install) error {
	mk, err := parseMark(in.Target)
	if err != nil || !mk.given() {
		return fmt.Errorf("garboard.install=%s: want /dev/NAME of a whole disk, or serial=NUMBER", in.Target)
	}
	if m.Medium == "" {
		return errors.New("this node was not started from an ISO (garboard.medium= is not on its command line): there is nothing to install")
	}
	layout, err := InstalledLayout(in.Arch)
	if err != nil {
		return err
	}
	d, from, err := m.installPair(ctx, mk)
	if err != nil {
		return err
	}
	dev := filepath.Join(m.Dev, d.name)
	last := layout[len(layout)-1]
	switch {
	case from.name == d.name:
		return fmt.Errorf("%s is the medium that this node was started from", dev)
	case d.size < last.Start<<20+smallest+align:
		return fmt.Errorf("%s has %d MiB; %d are needed", dev, d.size>>20, last.Start+smallest>>20+1)
	}
	src, err := os.Open(filepath.Join(m.Dev, from.name))
	if err != nil {
		return err
	}
	defer src.Close()
	esp, size, err := from.espFor(d.sector, src)
	if err != nil {
		return fmt.Errorf("%s: %w", dev, err)
	}
	if size > layout[espNumber-1].Size<<20 {
		return fmt.Errorf("the EFI system partition of the medium has %d MiB; on a disk it has %d", size>>20, layout[espNumber-1].Size)
	}
	if err := m.mayOverwrite(ctx, d, in.Force); err != nil {
		return err
	}
	m.Printf("install: from /dev/%s to %s (%d MiB)", from.name, dev, d.size>>20)
	f, err := os.OpenFile(dev, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("open %s for itself: %w", dev, err)
	}
	return errors.Join(m.install(ctx, d, f, source{esp, size, from.name}, layout), f.Close())
}

// installPair waits for the target and the medium.
func (m *Manager) installPair(ctx context.Context, mk mark) (disk, *medium, error) {
	for began := time.Now(); ; {
		m.loadDrivers()
		if m.Load != nil {
			_ = m.Load("sr_mod") // without it a CD is missed below
		}
		list, err := disks(m.Sys)
		if err != nil {
			return disk{}, nil, err
		}
		list = slices.DeleteFunc(list, func(d disk) bool { return !mk.matches(d) })
		if len(list) > 1 {
			return disk{}, nil, fmt.Errorf("%s is %d disks; which one is not clear", mk, len(list))
		}
		if len(list) == 1 {
			if from := m.findMedium(m.Medium, list[0].name); from != nil {
				return list[0], from, nil
			}
		}
		left := m.Limits.Named - time.Since(began)
		switch {
		case left > 0:
		case len(list) == 0:
			return disk{}, nil, m.noTarget(mk)
		default:
			return disk{}, nil, fmt.Errorf("no medium with the ISO %s after %s; is it still in, and its driver in the image? A kernel for virtual machines may have none for SATA, IDE or USB: give the ISO as a virtio disk or a SCSI CD, or take one for real machines", m.Medium, m.Limits.Named)
		}
		select {
		case <-time.After(min(left, 50*time.Millisecond)):
		case <-ctx.Done():
			return disk{}, nil, ctx.Err()
		}
	}
}

// mayOverwrite refuses a disk that carries anything but an installation that was cut short.
func (m *Manager) mayOverwrite(ctx context.Context, d disk, force bool) error {
	dev := filepath.Join(m.Dev, d.name)
	t, err := m.readTable(d)
	if err == nil && slices.ContainsFunc(t.gpt.Partitions, func(p *gpt.Partition) bool { return p.Type == Unfinished }) {
		m.Printf("install: %s holds an installation that was not finished: it is begun again", dev)
		return nil
	}
	if err == nil && len(t.gpt.Partitions) > 0 { // blkid does not look for a backup
		err = fmt.Errorf("%s has a partition table with %d partitions; it is left alone", dev, len(t.gpt.Partitions))
	} else {
		err = m.blank(ctx, dev)
	}
	if err != nil && force {
		m.Printf("install: %v; overwritten all the same, as garboard.install.force=yes says", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w. garboard.install.force=yes overwrites it, and all that is on it is lost", err)
	}
	return nil
}

// target is what is installed to. *os.File is one.
type target interface {
	volume
	Fd() uintptr
}

// source is the ESP that is to be on the target.
type source struct {
	io.Reader
	size int64  // bytes
	name string // of the medium
}

func (m *Manager) install(ctx context.Context, d disk, f target, from source, layout []Installed) error {
	dev := filepath.Join(m.Dev, d.name)
	// What was there must not shine through: signatures lie at the beginning of
	// disks and partitions, and at the end of disks.
	wipe := []int64{0, d.size - align}
	for _, p := range layout {
		wipe = append(wipe, p.Start<<20)
	}
	for _, at := range wipe {
		if _, err := f.WriteAt(make([]byte, align), at); err != nil {
			return fmt.Errorf("wipe %s: %w", dev, err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("wipe %s: %w", dev, err)
		}
	}
	t, err := newTable(d.size, d.sector)
	if err != nil {
		return fmt.Errorf("%s: %w", dev, err)
	}
	for _, p := range layout {
		per := align / uint64(d.sector)
		e := &gpt.Partition{Index: p.Number, Name: p.Name, Type: p.Type, GUID: strings.ToUpper(uuid.NewString()),
			Start: uint64(p.Start) * per, End: uint64(p.Start+p.Size)*per - 1}
		switch p.Number {
		case espNumber:
			e.Type = Unfinished
		case len(layout):
			e.End = t.lastAligned()
			e.Attributes = making // the node makes the file system at its first boot
		}
		e.Size = (e.End - e.Start + 1) * uint64(d.sector)
		t.gpt.Partitions = append(t.gpt.Partitions, e)
	}
	if err := t.write(f); err != nil {
		return fmt.Errorf("%s: %w", dev, err)
	}
	m.Printf("install: %s has its partitions; copying the EFI system partition, %d MiB", dev, from.size>>20)
	if err := m.copyESP(ctx, f, layout[espNumber-1].Start<<20, from); err != nil {
		return fmt.Errorf("copy the EFI system partition from /dev/%s to %s: %w", from.name, dev, err)
	}
	for _, p := range t.gpt.Partitions {
		if p.Type == Unfinished {
			p.Type = gpt.EFISystemPartition
		}
	}
	if err := t.write(f); err != nil {
		return fmt.Errorf("%s: %w", dev, err)
	}
	m.Printf("install: done: %s boots into this node; take the medium out", dev)
	return nil
}

// copyESP copies and reads back what it wrote.
func (m *Manager) copyESP(ctx context.Context, to target, at int64, from source) error {
	read, written := sha256.New(), sha256.New()
	p := progress{ctx: ctx, total: from.size, say: func(percent int64) { m.Printf("install: copied %d %%", percent) }}
	if _, err := io.CopyBuffer(io.MultiWriter(io.NewOffsetWriter(to, at), read, &p), struct{ io.Reader }{from.Reader}, make([]byte, align)); err != nil {
		return err
	}
	if p.done != from.size {
		return fmt.Errorf("the medium ends %d bytes early", from.size-p.done)
	}
	if err := to.Sync(); err != nil {
		return err
	}
	// Not out of memory: what the disk has. Without the advice it would be.
	if err := unix.Fadvise(int(to.Fd()), at, from.size, unix.FADV_DONTNEED); err != nil {
		return err
	}
	p = progress{ctx: ctx, total: from.size, say: func(int64) {}}
	if _, err := io.CopyBuffer(io.MultiWriter(written, &p), struct{ io.Reader }{io.NewSectionReader(to, at, from.size)}, make([]byte, align)); err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	if string(read.Sum(nil)) != string(written.Sum(nil)) {
		return errors.New("what was read back is not what was written: the disk is faulty")
	}
	m.Printf("install: copied and read back")
	return nil
}

// progress counts, tells each quarter, and ends a copy with its context.
type progress struct {
	ctx         context.Context
	done, total int64
	say         func(percent int64)
}

func (p *progress) Write(b []byte) (int, error) {
	before := p.done * 4 / p.total
	p.done += int64(len(b))
	if now := p.done * 4 / p.total; now > before && now < 4 {
		p.say(now * 25)
	}
	return len(b), p.ctx.Err()
}
