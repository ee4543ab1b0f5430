// Package inspect looks into what a build wrote: archives, file systems, disks
// and EFI programs inside one another, recognised by their first bytes and never
// by their name. It reads what is there; where it comes from, the manifest says.
package inspect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is what a node of the tree is.
type Kind string

// The kinds.
const (
	Dir       Kind = "dir"
	File      Kind = "file"
	Symlink   Kind = "symlink"
	Device    Kind = "device"
	Section   Kind = "section"   // of an EFI program
	Partition Kind = "partition" // of a disk
	Archive   Kind = "archive"   // one of several in an initramfs
)

// Node is a file, and what is in it where it is a container.
type Node struct {
	Name     string  `json:"name"`
	Kind     Kind    `json:"kind"`
	Format   string  `json:"format,omitempty"` // of what is inside, such as "EROFS"
	Size     int64   `json:"size,omitempty"`   // bytes
	Mode     uint32  `json:"mode,omitempty"`   // permission bits with setuid, setgid and sticky
	UID      int     `json:"uid,omitempty"`
	GID      int     `json:"gid,omitempty"`
	Link     string  `json:"link,omitempty"`   // target of a symlink
	SHA256   string  `json:"sha256,omitempty"` // of the content, where it was asked for
	Text     string  `json:"text,omitempty"`   // short content that is text
	Note     string  `json:"note,omitempty"`   // what could not be read, and why
	Origin   string  `json:"origin,omitempty"` // from the manifest
	Reason   string  `json:"reason,omitempty"` // from the manifest
	Children []*Node `json:"children,omitempty"`
}

// Options say how closely to look.
type Options struct {
	Hash bool // take the sha256 of every file's content
	// Extract unpacks an EROFS image into a directory, for the hashes of its
	// files. Without it those have none: EROFS images are compressed.
	Extract func(ctx context.Context, image, dir string) error
}

// Limits on what is read: no output of ours comes near them.
const (
	maxDepth   = 8
	maxEntries = 1 << 20
)

// ErrUnknown is a file of no format that is known here.
var ErrUnknown = errors.New("none of the formats that a build writes: initramfs (cpio), EROFS, EFI program, GPT disk, qcow2, FAT, ISO 9660, ext4, kernel")

// Path looks into a file.
func Path(ctx context.Context, file string, o Options) (*Node, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", file)
	}
	in := &inspector{Options: o, ctx: ctx}
	n := &Node{Name: filepath.Base(file), Kind: File, Size: fi.Size(), Mode: uint32(fi.Mode().Perm())}
	known, err := in.content(n, f, 0)
	if err == nil && !known {
		if err = ErrUnknown; n.Format == "text" {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// inspector is one look.
type inspector struct {
	Options
	ctx     context.Context
	entries int
}

// count is an error when there are absurdly many entries, or the look was called off.
func (in *inspector) count() error {
	if in.entries++; in.entries > maxEntries {
		return fmt.Errorf("more than %d entries", maxEntries)
	}
	return in.ctx.Err()
}

// format is something that can be inside a file.
type format struct {
	name  string
	magic func(head []byte) bool
	read  func(in *inspector, n *Node, r io.ReaderAt, depth int) error
}

// headSize covers the magic of every format: ISO 9660's lies farthest in.
const headSize = 0x8006

func at(off int, magic string) func([]byte) bool {
	return func(head []byte) bool {
		return len(head) >= off+len(magic) && string(head[off:off+len(magic)]) == magic
	}
}

// formats in the order in which they are tried: an ISO that boots as a disk
// holds a partition table too, an EFI program may hold anything.
func formats() []format {
	return []format{
		{"ISO 9660", at(0x8001, "CD001"), (*inspector).iso},
		{"qcow2", at(0, "QFI\xfb"), (*inspector).qcow2},
		{"GPT disk", at(512, "EFI PART"), (*inspector).gpt},
		{"EROFS", at(1024, "\xe2\xe1\xf5\xe0"), (*inspector).erofs},
		{"ext4", at(1024+0x38, "\x53\xef"), (*inspector).ext4},
		{"FAT32", at(82, "FAT32"), (*inspector).fat},
		{"initramfs", isCPIO, (*inspector).initramfs},
		{"kernel", isKernel, (*inspector).kernel},
		{"EFI program", at(0, "MZ"), (*inspector).pe},
	}
}

// content recognises what is inside and reads it. Damage inside something that is
// itself sound is a note on the node; known is false for what is no container.
func (in *inspector) content(n *Node, r io.ReaderAt, depth int) (known bool, err error) {
	if err := in.ctx.Err(); err != nil {
		return false, err
	}
	if in.Hash && n.SHA256 == "" {
		if n.SHA256, err = hash(io.NewSectionReader(r, 0, n.Size)); err != nil {
			return false, err
		}
	}
	head := make([]byte, min(headSize, n.Size))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return false, err
	}
	for _, f := range formats() {
		if !f.magic(head) {
			continue
		}
		if n.Format == "" {
			n.Format = f.name
		}
		if depth >= maxDepth {
			n.Note = fmt.Sprintf("not looked into: %d containers inside one another", maxDepth)
			return true, nil
		}
		err := guard(func() error { return f.read(in, n, r, depth+1) })
		if err != nil && depth > 0 && in.ctx.Err() == nil {
			n.Note, err = err.Error(), nil
		}
		return true, err
	}
	if isText(head) {
		n.Format = "text"
		if n.Size <= maxText {
			n.Text = strings.TrimRight(string(head), "\x00")
		}
	}
	return false, nil
}

// guard turns a panic of a library, on bytes that it did not expect, into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: the reader failed with %v", p)
		}
	}()
	return f()
}

// maxText is the largest content that is shown, in bytes.
const maxText = 1024

func isText(b []byte) bool {
	return len(b) > 0 && !bytes.ContainsFunc(bytes.TrimRight(b, "\x00\n"), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == '\ufffd' })
}

func hash(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// add puts a node at a path below n, with the directories above it.
func (n *Node) add(p string, c *Node) {
	parent := n
	for dir := range strings.SplitSeq(path.Dir(p), "/") {
		if dir == "." || dir == "" {
			continue
		}
		next := parent.child(dir)
		if next == nil {
			next = &Node{Name: dir, Kind: Dir}
			parent.Children = append(parent.Children, next)
		}
		parent = next
	}
	c.Name = path.Base(p)
	if old := parent.child(c.Name); old != nil { // a directory that something in it came before
		c.Children = append(old.Children, c.Children...)
		*old = *c
		return
	}
	parent.Children = append(parent.Children, c)
}

func (n *Node) child(name string) *Node {
	if l := len(n.Children); l > 0 && n.Children[l-1].Name == name {
		return n.Children[l-1] // archives are in order
	}
	for _, c := range n.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Walk calls f for every node with its path from the root of the walk; what is
// inside a container file lies below it, after "!".
func (n *Node) Walk(f func(p string, n *Node)) { n.walk("", f) }

func (n *Node) walk(p string, f func(string, *Node)) {
	f(p, n)
	sep := "/"
	if n.Kind != Dir || p == "" {
		if sep = "!/"; p == "" {
			sep = ""
		}
	}
	for _, c := range n.Children {
		c.walk(p+sep+c.Name, f)
	}
}

// sorted orders the children by name, everywhere.
func (n *Node) sorted() {
	slices.SortStableFunc(n.Children, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range n.Children {
		c.sorted()
	}
}
