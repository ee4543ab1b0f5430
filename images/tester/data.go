package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const magicExt4 = 0xEF53

func init() {
	// What outlives a boot, on a node with a data partition. The host compares
	// what is said over several boots and then ends the node in its own way.
	scenarios["data"] = scenario{(*guest).checkDataBoot, stay}
	// The same, and what the kubelet thinks of it.
	scenarios["data-capacity"] = scenario{func(g *guest) error {
		return errors.Join(g.checkDataBoot(), g.checkCapacity())
	}, stay}
	// The same node without one.
	scenarios["no-data"] = scenario{func(g *guest) error {
		return errors.Join(checkRunning(g), fileSystemIs(filepath.Join(g.host, "var"), magicTmpfs), g.checkCapacity(), g.sayCapacity())
	}, stay}
}

// checkDataBoot is one boot of a node with a data partition; in the first an image is pulled.
func (g *guest) checkDataBoot() error {
	if err := checkRunning(g); err != nil {
		return err
	}
	if err := g.checkData(); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(g.host, pulledManifestPath))
	return errors.Join(g.checkPulled(errors.Is(err, fs.ErrNotExist)), g.checkNoWipe(), g.sayCapacity())
}

func fileSystemIs(path string, magic int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", path, err)
	}
	if int64(st.Type)&0xffffffff != magic {
		return fmt.Errorf("%s is of file system type %#x, want %#x", path, st.Type, magic)
	}
	return nil
}

// checkData adds a line to a file on the data partition, one to a file in /etc,
// and says how many there are now, which is the number of boots.
func (g *guest) checkData() error {
	if err := fileSystemIs(filepath.Join(g.host, "var"), magicExt4); err != nil {
		return err
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Join(g.host, "var"), &st); err != nil {
		return err
	}
	id, err := os.ReadFile(filepath.Join(g.host, "etc/machine-id"))
	if err != nil {
		return err
	}
	var seed []byte
	if err := within(10*time.Second, func() error { // a phase beside the start of the pods
		seed, err = os.ReadFile(filepath.Join(g.host, "var/lib/garboard/random-seed"))
		return err
	}); err != nil {
		return err
	}
	counts := map[string]int{}
	for _, f := range []string{"var/lib/data-test", "etc/data-test"} {
		path := filepath.Join(g.host, f)
		if err := appendTo(path, "a line of one boot\n"); err != nil {
			return err
		}
		if err := errors.Join(synced(path), synced(filepath.Dir(path))); err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		counts[f] = strings.Count(string(b), "a line of one boot\n")
	}
	if err := g.sayPartitions(); err != nil {
		return err
	}
	g.say("data: var %d, etc %d, machine-id %s, seed %x of %d bytes, size %d MiB", counts["var/lib/data-test"], counts["etc/data-test"],
		strings.TrimSpace(string(id)), sha256.Sum256(seed), len(seed), st.Blocks*uint64(st.Bsize)>>20)
	return nil
}

// sayPartitions says which partitions the kernel knows.
func (g *guest) sayPartitions() error {
	found, err := filepath.Glob("/sys/class/block/*/partition")
	if err != nil {
		return err
	}
	var names []string
	for _, f := range found {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	g.say("data: partitions %s", strings.Join(names, " "))
	return nil
}

// synced has a file or directory written out, as a pod does that wants its data
// to be there after a power failure.
func synced(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// sayCapacity passes on what the kubelet complains of about its file systems.
func (g *guest) sayCapacity() error {
	b, err := os.ReadFile(filepath.Join(g.host, "var/log/garboard/kubelet.log"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		low := strings.ToLower(line)
		if strings.Contains(low, "invalid capacity") || strings.Contains(low, "label \"crio") || strings.Contains(low, "partition info") {
			g.say("data: kubelet: %s", strings.TrimSpace(line))
		}
	}
	return nil
}
