package preload

import (
	"archive/tar"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// capabilityAttr is the extended attribute that holds a file's capabilities
// (capabilities(7), "File capabilities").
const capabilityAttr = "security.capability"

// attributes are the extended attributes of a file that a root image can hold: its
// capabilities, in hexadecimal. Any other is an error.
func attributes(h *tar.Header) (capabilities string, err error) {
	for k, v := range h.PAXRecords {
		switch name, ok := strings.CutPrefix(k, xattrRecord); {
		case !ok:
		case name != capabilityAttr:
			return "", fmt.Errorf("%q has the extended attribute %s, which a root image cannot hold; rebuild the image without it", h.Name, name)
		case h.Typeflag != tar.TypeReg:
			return "", fmt.Errorf("%q has capabilities and is no file", h.Name)
		case !isCapabilities(v):
			return "", fmt.Errorf("%q has capabilities in a form that no kernel knows (%x); rebuild the image", h.Name, v)
		default:
			capabilities = hex.EncodeToString([]byte(v))
		}
	}
	return capabilities, nil
}

// isCapabilities says whether an attribute is what the kernel takes: struct vfs_cap_data
// or vfs_ns_cap_data (linux/capability.h), whose size follows from its revision.
func isCapabilities(v string) bool {
	const revision = 0xff00_0000
	if len(v) < 4 {
		return false
	}
	size, known := map[uint32]int{0x0100_0000: 12, 0x0200_0000: 20, 0x0300_0000: 24}[binary.LittleEndian.Uint32([]byte(v))&revision]
	return known && len(v) == size
}

// paxRecords are the attributes of an entry in an archive.
func (e Entry) paxRecords() map[string]string {
	b, err := hex.DecodeString(e.Capabilities)
	if err != nil || len(b) == 0 {
		return nil
	}
	return map[string]string{xattrRecord + capabilityAttr: string(b)}
}
