package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// identity is whom a process acts for.
type identity struct{ uid, gid uintptr }

// lookup finds a user and a group by name or number. Without a group it is the
// user's own, or 0 for a user given by number, as under Kubernetes.
func lookup(root, user, group string) (identity, error) {
	var w identity
	var own string
	if user != "" {
		id, fields, err := find(root, "/etc/passwd", user)
		if err != nil {
			return w, fmt.Errorf("user: %w", err)
		}
		if w.uid = id; len(fields) > 3 {
			own = fields[3]
		}
	}
	if group == "" {
		group = own
	}
	if group != "" {
		id, _, err := find(root, "/etc/group", group)
		if err != nil {
			return w, fmt.Errorf("group: %w", err)
		}
		w.gid = id
	}
	return w, nil
}

// giveOutput makes the pipes of a process's output its user's, as container runtimes do:
// images of programs with logs have links from those to /dev/stdout.
func giveOutput(who identity) error {
	for _, fd := range []int{1, 2} {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO && uintptr(st.Uid) != who.uid {
			err = unix.Fchown(fd, int(who.uid), -1)
		}
		if err != nil {
			return fmt.Errorf("output for user %d: %w", who.uid, err)
		}
	}
	return nil
}

// find is the number of a name in a file of passwd(5)'s or group(5)'s form, and
// the fields of its line. A number is its own.
func find(root, file, name string) (uintptr, []string, error) {
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return uintptr(n), nil, nil
	}
	f, err := os.Open(filepath.Join(root, file))
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	fields, err := entry(f, name)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", file, err)
	}
	if fields == nil {
		return 0, nil, fmt.Errorf("%s is not in %s; an overlay of the recipe can add it", name, file)
	}
	n, err := strconv.ParseUint(fields[2], 10, 31)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: the number of %s, %q, is none", file, name, fields[2])
	}
	return uintptr(n), fields, nil
}

// entry is the first line of a name, in its fields; nil if there is none.
func entry(r io.Reader, name string) ([]string, error) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		fields := strings.Split(s.Text(), ":")
		if len(fields) >= 3 && fields[0] == name && name != "" {
			return fields, nil
		}
	}
	return nil, s.Err()
}
