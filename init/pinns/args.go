package pinns

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// kind is one kind of namespace.
type kind struct {
	short byte
	long  string // the option
	name  string // in /proc/PID/ns, and of the directory, with "ns" behind it
	flag  uintptr
}

// kinds is in the order in which namespaces are pinned.
var kinds = []kind{
	{'U', "user", "user", unix.CLONE_NEWUSER},
	{'u', "uts", "uts", unix.CLONE_NEWUTS},
	{'i', "ipc", "ipc", unix.CLONE_NEWIPC},
	{'n', "net", "net", unix.CLONE_NEWNET},
	{'c', "cgroup", "cgroup", unix.CLONE_NEWCGROUP},
	{'m', "mnt", "mnt", unix.CLONE_NEWNS},
}

// options is a parsed command line.
type options struct {
	dir, file string
	pin       map[string]bool // names of the namespaces to pin
	unshare   uintptr         // flags of those that are to be new
	sysctls   [][2]string
	uids      []mapping
	gids      []mapping
}

// mapping is one line of /proc/PID/uid_map.
type mapping struct{ inside, outside, size int }

func parse(args []string) (*options, error) {
	o := &options{pin: map[string]bool{}}
	var uid, gid *string
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := func() (string, error) {
			i++
			if i >= len(args) {
				return "", fmt.Errorf("option %s needs a value", a)
			}
			return args[i], nil
		}
		var err error
		switch {
		case strings.HasPrefix(a, "--"):
			name, value, has := strings.Cut(a[2:], "=")
			switch name {
			case "dir", "filename":
				if !has {
					value, err = next()
				}
				if name == "dir" {
					o.dir = value
				} else {
					o.file = value
				}
			case "sysctl":
				err = o.sysctl(value)
			case "uid-mapping":
				uid = &value
			case "gid-mapping":
				gid = &value
			default:
				err = o.add(func(k kind) bool { return k.long == name }, value, a)
			}
		case len(a) > 1 && a[0] == '-':
			err = o.short(a, next)
		default:
			err = fmt.Errorf("%q is no option", a)
		}
		if err != nil {
			return nil, err
		}
	}
	return o, o.check(uid, gid)
}

// short takes a word like -uin or -d/run/ns.
func (o *options) short(a string, next func() (string, error)) (err error) {
	for j := 1; j < len(a); j++ {
		if c := a[j]; c == 'd' || c == 'f' || c == 's' {
			value := a[j+1:]
			if value == "" {
				if value, err = next(); err != nil {
					return err
				}
			}
			switch c {
			case 'd':
				o.dir = value
			case 'f':
				o.file = value
			default:
				err = o.sysctl(value)
			}
			return err
		}
		if err := o.add(func(k kind) bool { return k.short == a[j] }, "", a); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) add(is func(kind) bool, value, word string) error {
	for _, k := range kinds {
		if is(k) {
			o.pin[k.name] = true
			if value != "host" {
				o.unshare |= k.flag
			}
			return nil
		}
	}
	return fmt.Errorf("option %s is not known", word)
}

func (o *options) sysctl(s string) error {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" || value == "" {
		return fmt.Errorf("sysctl %q is not in the form key=value", s)
	}
	o.sysctls = append(o.sysctls, [2]string{key, value})
	return nil
}

func (o *options) check(uid, gid *string) error {
	switch {
	case o.dir == "":
		return fmt.Errorf("no directory to pin namespaces in was given (-d)")
	case o.file == "":
		return fmt.Errorf("no file name to pin namespaces under was given (-f)")
	case strings.Contains(o.file, "/"):
		return fmt.Errorf("file name %q holds a '/'", o.file)
	case len(o.pin) == 0:
		return fmt.Errorf("no namespace to pin was given")
	case o.pin["user"] && (uid == nil || gid == nil):
		return fmt.Errorf("a user namespace needs --uid-mapping and --gid-mapping")
	case !o.pin["user"] && (uid != nil || gid != nil):
		return fmt.Errorf("mappings were given without a user namespace")
	case uid == nil:
		return nil
	}
	var err error
	if o.uids, err = parseMapping(*uid); err != nil {
		return fmt.Errorf("--uid-mapping: %w", err)
	}
	if o.gids, err = parseMapping(*gid); err != nil {
		return fmt.Errorf("--gid-mapping: %w", err)
	}
	return nil
}

// parseMapping reads "0-100000-65536@65536-0-1@".
func parseMapping(s string) ([]mapping, error) {
	var out []mapping
	for part := range strings.SplitSeq(s, "@") {
		if part == "" {
			continue
		}
		var n [3]uint32
		f := strings.Split(part, "-")
		if len(f) != 3 {
			return nil, fmt.Errorf("%q is not INSIDE-OUTSIDE-SIZE", part)
		}
		for i, x := range f {
			for _, r := range x {
				if r < '0' || r > '9' {
					return nil, fmt.Errorf("%q is not a number", x)
				}
			}
			if _, err := fmt.Sscan(x, &n[i]); err != nil {
				return nil, fmt.Errorf("%q is not a number: %w", x, err)
			}
		}
		out = append(out, mapping{int(n[0]), int(n[1]), int(n[2])})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q holds no mapping", s)
	}
	return out, nil
}
