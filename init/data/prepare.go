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

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// Limits are the ceilings of the waits.
type Limits struct {
	Named time.Duration // for the disk that the kernel command line names
	Late  time.Duration // for disks that are on their way, while there is no data partition
	Bus   time.Duration // for a bus that does not tell what is on its way (USB)
	Probe time.Duration // blkid
	Make  time.Duration // mke2fs
	Check time.Duration // e2fsck -p
	Mend  time.Duration // e2fsck -y
	Grow  time.Duration // the file system; it goes on growing after that
}

// DefaultLimits are a node's.
func DefaultLimits() Limits {
	return Limits{Named: 10 * time.Second, Late: 3 * time.Second, Bus: time.Second, Probe: 10 * time.Second,
		Make: 2 * time.Minute, Check: 2 * time.Minute, Mend: 10 * time.Minute, Grow: 10 * time.Second}
}

// Kernel is what is asked of the kernel about partitions and file systems.
type Kernel interface {
	// SetPartition makes the kernel's idea of a partition that of the table.
	// Offsets are in bytes; was is the kernel's, or nil if it knows none.
	SetPartition(disk string, number int, start, size int64, was *part) error
	// Grow makes the mounted ext4 file system that many blocks long, online.
	Grow(mountpoint string, blocks uint64) error
	// Sync writes out what a file system holds.
	Sync(mountpoint string) error
}

// Manager does the work. All fields but Load and Boot must be set.
type Manager struct {
	Sys, Dev string // "/sys", "/dev"
	Param    string // the value of garboard.data=
	Load     func(alias string) error
	// Boot is the GUID of the partition that the machine was started from; "" if
	// nobody knows. It is asked only where that matters.
	Boot func() (string, error)
	// Medium is the GUID of the ISO that the node was started from, or ""; the
	// disk that holds it is not used.
	Medium string
	Run    func(ctx context.Context, argv ...string) (Result, error)
	Kernel Kernel
	Printf func(format string, args ...any)
	Limits Limits

	warned    map[string]bool // disks whose table was complained of
	bootAsked bool
	bootPart  string
	bootErr   error
}

// Partition is a data partition that can be mounted.
type Partition struct {
	Device string // "/dev/vda1"
	disk   disk
	number int
	fresh  bool // just made: Finish takes the mark away
	super  superblock
	size   int64
}

// candidate is a data partition that was found.
type candidate struct {
	disk  disk
	table *table
	entry *gpt.Partition
}

// Prepare finds the data partition and makes it ready to be mounted: it makes or
// grows it where that is due, and checks it. It returns nil without an error if
// the node is to run without one. After an error it does so too, but not by intent.
func (m *Manager) Prepare(ctx context.Context) (*Partition, error) {
	mk, err := parseMark(m.Param)
	if err != nil || mk.none {
		return nil, err
	}
	c, err := m.find(ctx, mk)
	if err != nil || c == nil {
		return nil, err
	}
	return m.ready(ctx, c)
}

// find looks for a data partition until there is one or the limit has passed.
func (m *Manager) find(ctx context.Context, mk mark) (*candidate, error) {
	began := time.Now()
	said := ""
	for {
		m.loadDrivers()
		list, err := disks(m.Sys)
		if err != nil {
			return nil, err
		}
		limit, awaited := m.Limits.Named, "the disk "+mk.String()
		if mk.given() {
			list = slices.DeleteFunc(list, func(d disk) bool { return !mk.matches(d) })
			if len(list) > 1 {
				return nil, fmt.Errorf("%s is %d disks; which one is not clear, so none is used", mk, len(list))
			}
			if len(list) == 1 {
				return m.named(ctx, list[0])
			}
		} else {
			if c := m.choose(list); c != nil {
				return c, nil
			}
			guid := ""
			if len(list) > 0 { // a node without disks loses no time over it
				if guid, err = m.bootGUID(); err != nil {
					return nil, fmt.Errorf("which disk is the boot disk: %w", err)
				}
			}
			limit, awaited = m.Limits.Late, m.awaited(list, guid, time.Since(began))
			if awaited == "" || time.Since(began) >= limit {
				return m.onBootDisk(ctx, list, guid)
			}
		}
		left := limit - time.Since(began)
		if left <= 0 {
			return nil, fmt.Errorf("no disk %s after %s; is its driver in the image?", mk, limit)
		}
		if said != awaited {
			said = awaited
			m.Printf("data: waiting for %s, at most %s", awaited, limit)
		}
		select {
		case <-time.After(min(left, 50*time.Millisecond)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// awaited says what else may bring a data partition, since none of these disks
// holds one; "" if nothing is on its way.
func (m *Manager) awaited(list []disk, guid string, since time.Duration) string {
	if coming := onTheWay(m.Sys); len(coming) > 0 {
		return "disks that have not appeared yet (" + strings.Join(coming, ", ") + ")"
	}
	if d, _ := m.bootDisk(list, guid); d == nil && guid != "" {
		return "the boot disk, with partition " + guid
	}
	if since < m.Limits.Bus && usb(m.Sys) {
		return "disks on USB"
	}
	return ""
}

func (m *Manager) loadDrivers() {
	if m.Load == nil {
		return
	}
	for _, a := range drivers(m.Sys) {
		// Most have no module in this image, and that is fine: a disk that is
		// missed for it is missed on the console.
		_ = m.Load(a)
	}
}

// choose takes the data partition of the boot disk, else the one with the lowest
// GUID of all disks.
func (m *Manager) choose(list []disk) *candidate {
	var all []candidate
	for _, d := range list {
		t, err := m.readTable(d)
		if err != nil {
			if !errors.Is(err, errNoTable) && !m.warned[d.name] {
				if m.warned == nil {
					m.warned = map[string]bool{}
				}
				m.warned[d.name] = true
				m.Printf("data: /dev/%s: %v", d.name, err)
			}
			continue
		}
		for _, p := range t.data() {
			all = append(all, candidate{d, t, p})
		}
	}
	if len(all) == 0 {
		return nil
	}
	if len(all) == 1 {
		return &all[0]
	}
	// The boot disk is what was meant to be this node; what else is plugged in may be anybody's.
	boot := ""
	guid, err := m.bootGUID()
	if d, _ := m.bootDisk(list, guid); err == nil && d != nil {
		boot = d.name
	}
	order := func(c candidate) string {
		class := "1"
		if c.disk.name == boot {
			class = "0"
		}
		return class + strings.ToUpper(c.entry.GUID) + c.disk.name
	}
	slices.SortFunc(all, func(a, b candidate) int { return strings.Compare(order(a), order(b)) })
	var names []string
	for _, c := range all {
		names = append(names, fmt.Sprintf("%s on /dev/%s", c.entry.GUID, c.disk.name))
	}
	rule := "the one with the lowest GUID"
	if boot != "" && all[0].disk.name == boot {
		rule = "the one on the boot disk"
		if all[1].disk.name == boot {
			rule = "the one with the lowest GUID on the boot disk"
		}
	}
	m.Printf("data: WARNING: %d data partitions: %s; %s is used. Name one with garboard.data=", len(all), strings.Join(names, ", "), rule)
	return &all[0]
}

func (m *Manager) readTable(d disk) (*table, error) {
	f, err := os.Open(filepath.Join(m.Dev, d.name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readTable(f, d.size, d.sector)
}

// named is the data partition of the disk that the command line names; it is
// made there if the disk is blank or has a partition table with room.
func (m *Manager) named(ctx context.Context, d disk) (*candidate, error) {
	dev := filepath.Join(m.Dev, d.name)
	t, err := m.readTable(d)
	if err == nil {
		if list := t.data(); len(list) > 0 {
			return m.choose([]disk{d}), nil
		}
		if t.recovered || t.grown() {
			if err := m.nothingElse(ctx, dev, "gpt", "PMBR"); err != nil {
				return nil, err
			}
		}
	} else if errors.Is(err, errNoTable) {
		if err := m.blank(ctx, dev); err != nil {
			return nil, err
		}
		if t, err = newTable(d.size, d.sector); err != nil {
			return nil, fmt.Errorf("%s: %w", dev, err)
		}
		m.Printf("data: %s is blank and named by garboard.data=: it gets a partition table", dev)
	} else {
		return nil, err
	}
	p, err := t.add(false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dev, err)
	}
	return m.place(ctx, d, t, p)
}

// place writes a table to which a partition was added, unless the place is taken.
func (m *Manager) place(ctx context.Context, d disk, t *table, p *gpt.Partition) (*candidate, error) {
	dev := filepath.Join(m.Dev, d.name)
	if err := m.gapEmpty(ctx, dev, int64(p.Start)*d.sector, int64(p.Size)); err != nil {
		return nil, err
	}
	if err := m.writeTable(d, t); err != nil {
		return nil, fmt.Errorf("%s: %w", dev, err)
	}
	m.Printf("data: %s: made partition %d of %d MiB", dev, p.Index, p.Size>>20)
	return &candidate{d, t, p}, nil
}

// ready brings table, kernel and file system of a candidate in order.
func (m *Manager) ready(ctx context.Context, c *candidate) (*Partition, error) {
	if err := m.mendTable(ctx, c); err != nil {
		return nil, err
	}
	start, size := int64(c.entry.Start)*c.disk.sector, int64(c.entry.Size)
	var was *part
	if p, ok := c.disk.parts[c.entry.Index]; ok {
		was = &p
	}
	disk := filepath.Join(m.Dev, c.disk.name)
	if was == nil || was.start != start || was.size != size {
		if err := m.Kernel.SetPartition(disk, c.entry.Index, start, size, was); err != nil {
			return nil, fmt.Errorf("tell the kernel of partition %d of %s: %w", c.entry.Index, disk, err)
		}
	}
	p := &Partition{Device: filepath.Join(m.Dev, partName(c.disk.name, c.entry.Index)), disk: c.disk, number: c.entry.Index, size: size}
	return p, m.fileSystem(ctx, c, p)
}

// partName is the kernel's name of a partition: "vda1", "nvme0n1p1".
func partName(disk string, n int) string {
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		return fmt.Sprintf("%sp%d", disk, n)
	}
	return fmt.Sprintf("%s%d", disk, n)
}

// mendTable writes the table again if half of it is damaged or the disk grew.
func (m *Manager) mendTable(ctx context.Context, c *candidate) error {
	if !c.table.recovered && !c.table.grown() {
		return nil
	}
	dev := filepath.Join(m.Dev, c.disk.name)
	if c.table.recovered {
		// The primary may be missing because something else was put there.
		if err := m.nothingElse(ctx, dev, "gpt", "PMBR"); err != nil {
			return err
		}
		m.Printf("data: %s: the first copy of the partition table is damaged, restored from the second", dev)
	}
	if c.table.grown() {
		old := c.entry.Size
		if c.table.stretch(c.entry) {
			m.Printf("data: %s is larger than its partition table: partition %d grows from %d to %d MiB", dev, c.entry.Index, old>>20, c.entry.Size>>20)
		} else {
			m.Printf("data: %s is larger than its partition table, but partition %d has no room to grow", dev, c.entry.Index)
		}
	}
	return m.writeTable(c.disk, c.table)
}

func (m *Manager) writeTable(d disk, t *table) error {
	f, err := os.OpenFile(filepath.Join(m.Dev, d.name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(t.write(f), f.Close())
}
