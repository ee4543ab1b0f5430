package builder

import (
	"errors"
	"os"
	"path/filepath"
)

// leftoverPattern are the names that outputs have while they are written.
const leftoverPattern = ".garboard-*"

// sweepLeftovers removes what killed builds left half-written, under names of its
// own, in an output directory, which the caller has locked.
func sweepLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, leftoverPattern))
	var errs []error
	for _, p := range left {
		errs = append(errs, os.Remove(p))
	}
	return errors.Join(append(errs, err)...)
}
