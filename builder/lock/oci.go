package lock

import (
	"context"
	"fmt"
	"regexp"
	"slices"
)

// ResolveOCI asks a registry for the digest of the image that a reference means
// for an architecture.
type ResolveOCI func(ctx context.Context, ref, arch string) (digest string, err error)

var digestRE = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func validateOCI(m map[string]map[string]string) error {
	for _, ref := range sortedKeys(m) {
		for _, arch := range sortedKeys(m[ref]) {
			if arch != "amd64" && arch != "arm64" {
				return fmt.Errorf("oci.%s: architecture %q is neither amd64 nor arm64", ref, arch)
			}
			if !digestRE.MatchString(m[ref][arch]) {
				return fmt.Errorf("oci.%s.%s: %q is not sha256: and 64 hexadecimal digits", ref, arch, m[ref][arch])
			}
		}
	}
	return nil
}

// resolveOCI pins images anew. wanted are references by architecture.
func resolveOCI(ctx context.Context, ask ResolveOCI, wanted map[string][]string) (map[string]map[string]string, error) {
	var out map[string]map[string]string
	for _, arch := range sortedKeys(wanted) {
		for _, ref := range slices.Sorted(slices.Values(wanted[arch])) {
			digest, err := ask(ctx, ref, arch)
			if err != nil {
				return nil, fmt.Errorf("lock: %w", err)
			}
			if out == nil {
				out = map[string]map[string]string{}
			}
			if out[ref] == nil {
				out[ref] = map[string]string{}
			}
			out[ref][arch] = digest
		}
	}
	return out, nil
}

// Digest is what the lock pins for an image in a registry.
func (l *Lock) Digest(ref, arch string) (string, error) {
	if d := l.OCI[ref][arch]; d != "" {
		return d, nil
	}
	return "", fmt.Errorf("lock: image %s for %s is not in garboard.lock; run `garboard lock`", ref, arch)
}
