package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The programs, as the root image has them.
const (
	mke2fs = "/usr/sbin/mke2fs"
	e2fsck = "/usr/sbin/e2fsck"
	blkid  = "/usr/sbin/blkid"
)

// Result is how a program ended.
type Result struct {
	Status int    // exit status; -1 if a signal ended it
	Output string // standard output and error
}

func (r Result) line() string { return strings.Join(strings.Fields(r.Output), " ") }

// fileSystem makes or checks the file system of a partition.
func (m *Manager) fileSystem(ctx context.Context, c *candidate, p *Partition) error {
	if c.entry.Attributes&making != 0 {
		return m.format(ctx, c, p)
	}
	f, err := os.Open(p.Device)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = readSuper(f); err != nil {
		empty, err := startsEmpty(f)
		if err != nil {
			return fmt.Errorf("read %s: %w", p.Device, err)
		}
		found, err := m.probe(ctx, p.Device)
		switch {
		case err != nil:
			return err
		case len(found) > 0:
			return fmt.Errorf("%s holds something else (%s); it is left alone. To have it made anew: sgdisk -A %d:set:48 /dev/%s", p.Device, strings.Join(found, ", "), p.number, p.disk.name)
		case empty && !hasCopy(f):
			return m.format(ctx, c, p)
		}
		// Damage is not emptiness: there may be copies of the superblock.
		m.Printf("data: %s has no superblock and is not empty: damaged", p.Device)
	}
	if err := m.check(ctx, p.Device); err != nil {
		return err
	}
	p.super, err = readSuper(f)
	return err
}

// format makes the file system. The partition carries the mark until Finish has
// taken it away; until then a power failure leads here again.
func (m *Manager) format(ctx context.Context, c *candidate, p *Partition) error {
	if p.size < smallest {
		return fmt.Errorf("%s has %d MiB; a data partition needs %d", p.Device, p.size>>20, smallest>>20)
	}
	if c.entry.Attributes&making == 0 {
		c.entry.Attributes |= making
		if err := m.writeTable(c.disk, c.table); err != nil {
			return err
		}
	}
	m.Printf("data: making an ext4 file system of %d MiB on %s, at most %s", p.size>>20, p.Device, m.Limits.Make)
	r, err := m.bounded(ctx, m.Limits.Make, mke2fs, "-q", "-F", "-t", "ext4", "-L", label, "-m", "1", "-e", "remount-ro", p.Device)
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("mke2fs %s: exit status %d: %s", p.Device, r.Status, r.line())
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(p.Device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", p.Device, err)
	}
	p.fresh = true
	p.super, err = readSuper(f)
	return err
}

// check has e2fsck replay the journal and repair what is safe to repair, and if
// that is not enough, whatever it can (e2fsck(8), exit statuses).
func (m *Manager) check(ctx context.Context, dev string) error {
	r, err := m.bounded(ctx, m.Limits.Check, e2fsck, "-p", dev)
	if err != nil {
		return err
	}
	if r.Status >= 0 && r.Status&^3 == 0 {
		if r.Status != 0 {
			m.Printf("data: e2fsck corrected %s: %s", dev, r.line())
		}
		return nil
	}
	m.Printf("data: %s is damaged (e2fsck -p: exit status %d: %s): repairing it, at most %s", dev, r.Status, r.line(), m.Limits.Mend)
	return m.Mend(ctx, dev)
}

// Mend has e2fsck repair whatever it can. It may take two runs: one that starts
// from a copy of the superblock and replays the journal ends with an error right
// after that (e2fsck 1.47), and the next one goes on from there.
func (m *Manager) Mend(ctx context.Context, dev string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.Limits.Mend, fmt.Errorf("not done within %s", m.Limits.Mend))
	defer cancel()
	var r Result
	for range 2 {
		var err error
		if r, err = m.bounded(ctx, m.Limits.Mend, e2fsck, "-f", "-y", dev); err != nil {
			return err
		}
		if r.Status >= 0 && r.Status&^3 == 0 {
			m.Printf("data: %s was repaired; what e2fsck could not place is in /var/lost+found", dev)
			return nil
		}
	}
	return fmt.Errorf("%s cannot be repaired (e2fsck -y: exit status %d: %s)", dev, r.Status, tail(r.line(), 300))
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "... " + s[len(s)-n:]
}

// Finish does what is left once the partition is mounted: it lets the file
// system grow into the partition, and takes the mark of one that is being made away.
func (m *Manager) Finish(p *Partition, mountpoint string) error {
	var errs []error
	if p.super.size()+p.super.blockSize <= p.size {
		errs = append(errs, m.grow(p, mountpoint))
	}
	if p.fresh {
		errs = append(errs, m.unmark(p, mountpoint))
	}
	return errors.Join(errs...)
}

func (m *Manager) grow(p *Partition, mountpoint string) error {
	blocks := uint64(p.size / p.super.blockSize)
	m.Printf("data: the file system on %s grows from %d to %d MiB", p.Device, p.super.size()>>20, p.size>>20)
	done := make(chan error, 1)
	go func() { done <- m.Kernel.Grow(mountpoint, blocks) }() // journaled: it may be cut or outlive this wait
	t := time.NewTimer(m.Limits.Grow)
	defer t.Stop()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("grow the file system on %s: %w", p.Device, err)
		}
		return nil
	case <-t.C:
		m.Printf("data: the file system on %s still grows after %s; the boot goes on", p.Device, m.Limits.Grow)
		return nil
	}
}

func (m *Manager) unmark(p *Partition, mountpoint string) error {
	if err := m.Kernel.Sync(mountpoint); err != nil {
		return fmt.Errorf("sync %s: %w", mountpoint, err)
	}
	t, err := m.readTable(p.disk)
	if err != nil {
		return err
	}
	for _, e := range t.data() {
		if e.Index == p.number {
			e.Attributes &^= making
			return m.writeTable(p.disk, t)
		}
	}
	return fmt.Errorf("partition %d of /dev/%s is no longer in the table", p.number, p.disk.name)
}

// probe lists what blkid recognises in a device or a range of it: types of file
// systems, RAID members, partition tables.
func (m *Manager) probe(ctx context.Context, dev string, args ...string) ([]string, error) {
	argv := slices.Concat([]string{blkid, "-p", "-o", "export"}, args, []string{dev})
	r, err := m.bounded(ctx, m.Limits.Probe, argv...)
	if err != nil {
		return nil, err
	}
	switch r.Status {
	case 2: // nothing
		return nil, nil
	case 8:
		return []string{"several signatures at once"}, nil
	case 0:
		var found []string
		for line := range strings.Lines(r.Output) {
			for _, k := range []string{"TYPE=", "PTTYPE="} {
				if v, ok := strings.CutPrefix(strings.TrimSpace(line), k); ok {
					found = append(found, v)
				}
			}
		}
		return found, nil
	}
	return nil, fmt.Errorf("blkid %s: exit status %d: %s", dev, r.Status, r.line())
}

// blank says why a whole disk is not blank. Blank is what holds no signature
// that blkid knows and begins with a MiB of zeros: of what has neither name nor
// structure, encrypted data for one, nobody can say whose it is.
func (m *Manager) blank(ctx context.Context, dev string) error {
	if err := m.nothingElse(ctx, dev); err != nil {
		return err
	}
	f, err := os.Open(dev)
	if err != nil {
		return err
	}
	defer f.Close()
	empty, err := startsEmpty(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", dev, err)
	}
	if !empty {
		return fmt.Errorf("%s holds something unknown; it is left alone. To have it used, zero its first MiB", dev)
	}
	return nil
}

// nothingElse refuses a disk on which blkid finds more than is expected.
func (m *Manager) nothingElse(ctx context.Context, dev string, expected ...string) error {
	found, err := m.probe(ctx, dev)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(s string) bool { return slices.Contains(expected, s) })
	if len(found) > 0 {
		return fmt.Errorf("%s holds something else (%s); it is left alone. To have it used, zero its first and last MiB", dev, strings.Join(found, ", "))
	}
	return nil
}

// gapEmpty refuses free space that carries a signature: a partition may have
// been there whose entry was lost.
func (m *Manager) gapEmpty(ctx context.Context, dev string, start, size int64) error {
	found, err := m.probe(ctx, dev, "-O", fmt.Sprint(start), "-S", fmt.Sprint(size))
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%s: the free space at byte %d carries a signature (%s); it is left alone. To have it used, zero its first MiB", dev, start, strings.Join(found, ", "))
	}
	return nil
}

// bounded runs a program with a ceiling.
func (m *Manager) bounded(ctx context.Context, limit time.Duration, argv ...string) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
	defer cancel()
	r, err := m.Run(ctx, argv...)
	if err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Base(argv[0]), err)
	}
	return r, nil
}
