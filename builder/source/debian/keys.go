package debian

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"

	"github.com/ProtonMail/go-crypto/openpgp"
)

//go:embed keys/*.asc
var keyFiles embed.FS

// ArchiveKeys are the keys with which Debian signs trixie and its security
// updates, as the package debian-archive-keyring ships them.
func ArchiveKeys() (openpgp.EntityList, error) { return readKeys(keyFiles) }

func readKeys(fsys fs.FS) (openpgp.EntityList, error) {
	names, err := fs.Glob(fsys, "keys/*.asc")
	if err != nil {
		return nil, err
	}
	var keys openpgp.EntityList
	for _, n := range names {
		b, err := fs.ReadFile(fsys, n)
		if err != nil {
			return nil, err
		}
		l, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("archive key %s: %w", n, err)
		}
		keys = append(keys, l...)
	}
	return keys, nil
}
