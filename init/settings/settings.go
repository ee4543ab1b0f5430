// Package settings applies what a node is told once at boot: kernel parameters,
// its name, its machine id and the earliest time its clock may show.
package settings

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"garboard.local/init/table"
)

// Cmdline is the kernel command line as PID 1 reads it.
type Cmdline map[string]string

// ParseCmdline splits a command line at spaces outside double quotes, as the
// kernel does; of a parameter given twice the last counts.
func ParseCmdline(text string) Cmdline {
	c := Cmdline{}
	quoted := false
	fields := strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\n' || r == '\t')
	})
	for _, w := range fields {
		k, v, _ := strings.Cut(strings.ReplaceAll(w, `"`, ""), "=")
		c[k] = v
	}
	return c
}

// Has says whether the comma-separated value of key contains word.
func (c Cmdline) Has(key, word string) bool {
	for w := range strings.SplitSeq(c[key], ",") {
		if w == word {
			return true
		}
	}
	return false
}

// Sysctl writes one kernel parameter below root's /proc/sys. In a key either
// separator may stand, as with sysctl(8): the first one decides, so that
// "net/ipv4/conf/eth0.1/forwarding" names an interface with a dot.
func Sysctl(root, key, value string) error {
	i := strings.IndexAny(key, "./")
	p := key
	if i >= 0 && key[i] == '.' {
		p = strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, key)
	}
	if p == "" || filepath.IsAbs(p) || !filepath.IsLocal(p) {
		return fmt.Errorf("sysctl %q: not a key below /proc/sys", key)
	}
	p = filepath.Join(root, "proc/sys", p)
	// Some parameters cannot be written again once the kernel command line has set them.
	if b, err := os.ReadFile(p); err == nil && strings.Join(strings.Fields(string(b)), " ") == value {
		return nil
	}
	f, err := os.OpenFile(p, os.O_WRONLY, 0) // never made: the kernel has it or not
	if err != nil {
		return fmt.Errorf("sysctl %s=%s: %w", key, value, err)
	}
	_, err = f.WriteString(value + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("sysctl %s=%s: %w", key, value, err)
	}
	return nil
}

// Sysctls writes them all in order; only those that are not optional count as
// failed. A "*" between dots stands for each interface that there is now; those
// that come later take the values of "default".
func Sysctls(root string, list []table.Sysctl) error {
	var errs []error
	for _, s := range list {
		err := each(root, s.Key, func(key string) error { return Sysctl(root, key, s.Value) })
		if err != nil && !(s.Optional && errors.Is(err, os.ErrNotExist)) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// each calls f with the keys that key stands for. An interface that vanishes
// meanwhile is no error.
func each(root, key string, f func(key string) error) error {
	if !strings.Contains(key, "*") {
		return f(key)
	}
	base := filepath.Join(root, "proc/sys")
	files, err := filepath.Glob(filepath.Join(base, strings.ReplaceAll(key, ".", "/")))
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", key, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("sysctl %s: %w", key, os.ErrNotExist)
	}
	var errs []error
	for _, file := range files {
		if err := f(strings.TrimPrefix(file, base+"/")); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Dirs makes the table's directories, with their modes whatever the umask says.
func Dirs(root string, list []table.Dir) error {
	var errs []error
	for _, d := range list {
		p := filepath.Join(root, d.Path)
		if d.Link != "" {
			err := os.MkdirAll(filepath.Dir(p), 0o755)
			if err == nil {
				err = os.Symlink(d.Link, p)
			}
			if err != nil && !errors.Is(err, os.ErrExist) {
				errs = append(errs, err)
			}
			continue
		}
		if err := os.MkdirAll(p, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		// chown(2) takes setgid away, so the mode comes after it.
		if d.UID != 0 || d.GID != 0 {
			if err := os.Lchown(p, d.UID, d.GID); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if err := os.Chmod(p, d.Mode.Perm()|d.Mode&(os.ModeSticky|os.ModeSetgid)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Hosts is the text of /etc/hosts for a node called name.
func Hosts(name string) string {
	short, _, dotted := strings.Cut(name, ".")
	if dotted {
		name += " " + short
	}
	return "127.0.0.1 localhost\n127.0.1.1 " + name + "\n::1 localhost ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n"
}

// MachineID returns the text for /etc/machine-id (machine-id(5)): the virtual
// machine's own UUID, which stays over reboots, else a random one.
func MachineID(productUUID string) (string, error) {
	id := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(productUUID), "-", ""))
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 16 || allSame(b) {
		b = make([]byte, 16)
		if _, err := rand.Read(b); err != nil {
			return "", err
		}
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // UUID version 4
	}
	return hex.EncodeToString(b) + "\n", nil
}

// allSame finds the UUIDs of firmware that has none: all 0 or all F.
func allSame(b []byte) bool {
	for _, c := range b {
		if c != b[0] {
			return false
		}
	}
	return true
}

// ClockFloor says what the clock must be set to: a clock earlier than the image
// was built is wrong, and certificates would not be valid yet. ok is false if
// the clock may stay as it is.
func ClockFloor(now, built time.Time) (to time.Time, ok bool) {
	if built.IsZero() || !now.Before(built) {
		return time.Time{}, false
	}
	return built, true
}

// WriteFile replaces a file in one step.
func WriteFile(path, text string, mode os.FileMode) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text), mode); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}
