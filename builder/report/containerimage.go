package report

import (
	"fmt"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

// ContainerImage is a container image of others that ships with the node. What is in
// it, and under which licences, the image itself does not say.
type ContainerImage struct {
	Name         string `json:"name"`                   // under which pods ask for it
	Source       string `json:"source"`                 // its reference in a registry, or the name of the file or directory
	SourceDigest string `json:"sourceDigest,omitempty"` // of the registry's manifest for this architecture
	Digest       string `json:"digest"`                 // of the manifest in the node's store; another one if it was flattened
	ID           string `json:"id"`                     // of the configuration, in hexadecimal
	Store        string `json:"store"`                  // directory on the node; below /var: only disk images have it
	Bytes        int64  `json:"bytes"`                  // of its layers as archives, uncompressed
}

func (c ContainerImage) component() cyclonedx.Component {
	out := cyclonedx.Component{
		BOMRef: "container-image " + c.Name, Type: cyclonedx.ComponentTypeContainer, Name: c.Name, Version: c.Digest,
		Description: "container image in " + c.Store,
		Hashes:      &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: strings.TrimPrefix(c.Digest, "sha256:")}},
		Properties:  props(propDigest, c.Digest, propBytes, fmt.Sprint(c.Bytes)),
	}
	if c.SourceDigest != "" {
		out.PackageURL = ociURL(c.Source, c.SourceDigest)
	}
	return out
}

// ociURL is the package URL of an image in a registry. purl-spec, type oci: the name
// is the last part of the repository, the version the digest.
func ociURL(ref, digest string) string {
	repository, _, _ := strings.Cut(ref, "@")
	tag := ""
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:i], repository[i+1:]
	}
	q := packageurl.Qualifiers{{Key: "repository_url", Value: repository}}
	if tag != "" {
		q = append(q, packageurl.Qualifier{Key: "tag", Value: tag})
	}
	return packageurl.NewPackageURL("oci", "", strings.ToLower(repository[strings.LastIndexByte(repository, '/')+1:]), digest, q, "").ToString()
}
