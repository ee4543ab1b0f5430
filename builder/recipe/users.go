package recipe

import (
	"errors"
	"fmt"
	"regexp"
)

// userName is what every program takes for a user's name (useradd(8)).
var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// maxUID is below 65534, which is nobody, and 65535, which is -1 in 16 bits.
const maxUID = 65533

// checkUsers says which of the users is wrong, and how. What the image's own files
// have is for the builder to compare with.
func checkUsers(users []User) (at int, err error) {
	names, numbers := map[string]bool{}, map[int]string{}
	for i, u := range users {
		switch other, taken := numbers[u.UID]; {
		case !userName.MatchString(u.Name):
			return i, fmt.Errorf("%q is no name of a user: small letters, digits, _ and -, at most 32, not beginning with a digit or -", u.Name)
		case u.Reason == "":
			return i, fmt.Errorf("%s: reason is needed", u.Name)
		case u.UID == 0:
			return i, errors.New(u.Name + ": uid is needed, and 0 is root's")
		case u.UID < 0 || u.UID > maxUID:
			return i, fmt.Errorf("%s: uid %d is not within 1 and %d", u.Name, u.UID, maxUID)
		case names[u.Name]:
			return i, fmt.Errorf("%s is there twice", u.Name)
		case taken:
			return i, fmt.Errorf("%s has the uid %d, which is that of %s", u.Name, u.UID, other)
		}
		names[u.Name], numbers[u.UID] = true, u.Name
	}
	return 0, nil
}
