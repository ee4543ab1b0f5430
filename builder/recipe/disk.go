package recipe

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Output is the kind of an artefact.
type Output string

// The outputs.
const (
	Initramfs Output = "initramfs" // vmlinuz and initramfs.img, for direct kernel boot
	UKI       Output = "uki"       // <recipe>.efi, a Unified Kernel Image
	Raw       Output = "raw"       // <recipe>.raw, a disk image
	QCOW2     Output = "qcow2"     // <recipe>.qcow2, the same disk in QEMU's format
	ISO       Output = "iso"       // <recipe>.iso, for a CD or a stick
)

// Outputs are all outputs, in the order in which they are made.
var Outputs = []Output{Initramfs, UKI, Raw, QCOW2, ISO}

// Where the root image of a disk image lies.
const (
	RootInMemory = "memory" // in the UKI: all of it is read at boot and stays in memory; default
	RootOnDisk   = "disk"   // in a partition: what is used is read when it is used
)

// Disk says what disk images are like. Sizes are a number and MiB, GiB or TiB.
type Disk struct {
	// Size of the whole disk; default 4GiB, or what dataSize needs.
	Size string `yaml:"size,omitempty" json:"size,omitempty"`
	// DataSize of the data partition; default: what the other partitions leave.
	DataSize string `yaml:"dataSize,omitempty" json:"dataSize,omitempty"`
	// ESPSize of the EFI system partition; default 512MiB.
	ESPSize string `yaml:"espSize,omitempty" json:"espSize,omitempty"`
	// RootSize of each of the two root partitions; default 512MiB.
	RootSize string `yaml:"rootSize,omitempty" json:"rootSize,omitempty"`
	// Root says from where a node reads its root image: memory (default) or disk.
	Root string `yaml:"root,omitempty" json:"root,omitempty" jsonschema:"enum=memory,enum=disk"`
	// Content are directories, relative to the recipe, whose files lie on the data
	// partition from the start: what is in their var/ and etc/ is in the node's.
	Content []Overlay `yaml:"content,omitempty" json:"content,omitempty"`
	// Images are container images that lie on the data partition from the start, and
	// not in the root image: the memory that a root image takes is not theirs.
	Images []Image `yaml:"images,omitempty" json:"images,omitempty"`
}

// InMemory says whether the root image of disk images is in the UKI.
func (d Disk) InMemory() bool { return d.Root != RootOnDisk }

func (d Disk) check() error {
	for _, f := range []struct{ name, value string }{
		{"size", d.Size}, {"dataSize", d.DataSize}, {"espSize", d.ESPSize}, {"rootSize", d.RootSize},
	} {
		if _, err := ParseSize(f.value); err != nil {
			return fmt.Errorf("disk.%s: %w", f.name, err)
		}
	}
	if d.Root != "" && d.Root != RootInMemory && d.Root != RootOnDisk {
		return fmt.Errorf("disk.root: %q is not known; known: %s, %s", d.Root, RootInMemory, RootOnDisk)
	}
	for i, c := range d.Content {
		if c.Path == "" || c.Reason == "" {
			return fmt.Errorf("disk.content[%d] (%s): path and reason are needed", i, c.Path)
		}
		if c.Target != "" {
			if err := checkPath(c.Target); err != nil {
				return fmt.Errorf("disk.content[%d] (%s).target: %w", i, c.Path, err)
			}
		}
	}
	return nil
}

// ParseSize reads a size such as 512MiB, 4GiB or 1TiB in bytes; "" is 0.
func ParseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	for i, unit := range []string{"MiB", "GiB", "TiB"} {
		digits, ok := strings.CutSuffix(s, unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		shift := 20 + 10*i
		if err != nil || n < 1 || digits[0] == '+' || n > math.MaxInt64>>shift {
			break
		}
		return n << shift, nil
	}
	return 0, fmt.Errorf("%q is not a size: write a whole number and MiB, GiB or TiB, such as 4GiB", s)
}

// checkOutputs refuses an empty list and names that mean nothing.
func checkOutputs(list []Output) error {
	if len(list) == 0 {
		return fmt.Errorf("outputs is empty; known: %s", knownOutputs())
	}
	for i, o := range list {
		if !slices.Contains(Outputs, o) {
			return fmt.Errorf("outputs[%d]: %q is not known; known: %s", i, o, knownOutputs())
		}
	}
	return nil
}

func knownOutputs() string {
	var names []string
	for _, o := range Outputs {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}

// ParseOutputs reads the names of outputs.
func ParseOutputs(names []string) ([]Output, error) {
	var out []Output
	for _, n := range names {
		out = append(out, Output(n))
	}
	return out, checkOutputs(out)
}
