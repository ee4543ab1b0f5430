package builder

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"garboard.local/builder/rootfs"
)

// The files that say who there is: passwd(5), group(5).
const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// account is a user as /etc/passwd has it.
type account struct{ uid, gid int }

// addUsers adds the recipe's users to the image's files, and learns who there is.
func (b *build) addUsers(*library) error {
	if b.accounts = map[string]account{}; len(b.recipe.Users) == 0 && b.tree.Get(passwdFile) == nil {
		return nil
	}
	users, err := b.numbers(passwdFile, 2)
	if err != nil {
		return err
	}
	own, err := b.numbers(passwdFile, 3)
	if err != nil {
		return err
	}
	for name, uid := range users {
		b.accounts[name] = account{uid, own[name]}
	}
	if len(b.recipe.Users) == 0 {
		return nil
	}
	groups, err := b.numbers(groupFile, 2)
	if err != nil {
		return err
	}
	var passwd, group bytes.Buffer
	for _, u := range b.recipe.Users {
		for file, taken := range map[string]map[string]int{passwdFile: users, groupFile: groups} {
			for name, id := range taken {
				if name == u.Name || id == u.UID {
					return fmt.Errorf("recipe %s: user %s (%d): the image's %s has %s (%d) already", b.recipe.File, u.Name, u.UID, file, name, id)
				}
			}
		}
		fmt.Fprintf(&passwd, "%s:x:%d:%d:%s:/nonexistent:/nonexistent\n", u.Name, u.UID, u.UID, u.Name)
		fmt.Fprintf(&group, "%s:x:%d:\n", u.Name, u.UID)
		b.accounts[u.Name] = account{u.UID, u.UID}
	}
	if err := b.tree.Append(passwdFile, passwd.Bytes(), "recipe "+b.recipe.Name); err != nil {
		return err
	}
	return b.tree.Append(groupFile, group.Bytes(), "recipe "+b.recipe.Name)
}

// numbers reads a field of each line of passwd(5) or group(5), by name.
func (b *build) numbers(file string, field int) (map[string]int, error) {
	e := b.tree.Get(file)
	if e == nil || e.Kind != rootfs.File {
		return nil, fmt.Errorf("recipe %s: users are added to %s, which the image does not have", b.recipe.File, file)
	}
	r, err := e.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		fields := strings.Split(line, ":")
		if len(fields) <= field {
			return nil, fmt.Errorf("%s (%s), line %d: %q has too few fields", file, e.Origin, i+1, line)
		}
		n, err := strconv.Atoi(fields[field])
		if err != nil {
			return nil, fmt.Errorf("%s (%s), line %d: %w", file, e.Origin, i+1, err)
		}
		all[fields[0]] = n
	}
	return all, nil
}

// owner is who has a directory: root, or a user of the image.
func (b *build) owner(name string) (account, error) {
	if name == "" {
		return account{}, nil
	}
	a, ok := b.accounts[name]
	if !ok {
		return a, fmt.Errorf("no user %q in %s; add it to the recipe's users", name, passwdFile)
	}
	return a, nil
}
