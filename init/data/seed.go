package data

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const seedBytes = 64

// StirSeed mixes the seed that the last run left in file into the kernel's
// random number generator (writing to random), and puts a new one in its place
// before anybody can draw on the old one.
//
// It counts as no entropy: of a disk image that was copied two nodes would
// believe in the same secret. The kernel gathers its own within the first second.
func StirSeed(file, random string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(old) > 0 {
		if err := os.WriteFile(random, old[:min(len(old), 512)], 0); err != nil {
			return fmt.Errorf("random seed: %w", err)
		}
	}
	return SaveSeed(file)
}

// SaveSeed writes a new seed, in one step and synced.
func SaveSeed(file string) error {
	b := make([]byte, seedBytes)
	if _, err := rand.Read(b); err != nil {
		return err
	}
	tmp := file + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("random seed: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		return fmt.Errorf("random seed: %w", errors.Join(err, os.Remove(tmp)))
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
