package report

import (
	"fmt"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// KernelImage is the OCI image that the kernel and its modules came from.
type KernelImage struct {
	Name    string `json:"name"`    // its reference, or the name of the file or directory
	Digest  string `json:"digest"`  // of the manifest for this architecture, sha256:...
	Version string `json:"version"` // of the kernel in it: uname -r
	Files   int    `json:"files"`   // files of it that are in the image
	Bytes   int64  `json:"bytes"`   // of these files, before compression
}

// ParseKernelImage reads the origin that files of such a kernel have: "oci NAME DIGEST".
func ParseKernelImage(origin, version string) (k KernelImage, ok bool, err error) {
	rest, ok := strings.CutPrefix(origin, "oci ")
	if !ok {
		return k, false, nil
	}
	// A name of a file may have spaces in it.
	i := strings.LastIndexByte(rest, ' ')
	if i <= 0 || !strings.HasPrefix(rest[i+1:], "sha256:") {
		return k, false, fmt.Errorf("the kernel's origin %q has no name or no digest", origin)
	}
	return KernelImage{Name: rest[:i], Digest: rest[i+1:], Version: version}, true, nil
}

// isReference reports whether the image came from a registry, and not from a file.
func (k KernelImage) isReference() bool { return strings.Contains(k.Name, "/") }

// component is the image as an ingredient. Its licence is not known: a kernel image
// says nothing of it.
func (k KernelImage) component() cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: "kernel-image", Type: cyclonedx.ComponentTypeOS, Name: k.Name, Version: k.Version,
		Description: "Linux kernel out of an OCI image",
		Hashes:      &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: strings.TrimPrefix(k.Digest, "sha256:")}},
		Properties:  props(propDigest, k.Digest, propFiles, fmt.Sprint(k.Files), propBytes, fmt.Sprint(k.Bytes)),
	}
	if k.isReference() {
		c.PackageURL = ociURL(k.Name, k.Digest)
	}
	return c
}
