package table

import "fmt"

// Seccomp is a filter of a process's system calls, ready for the kernel.
type Seccomp struct {
	Program []byte `json:"program"`         // struct sock_filter of linux/filter.h, 8 bytes each, little-endian
	Flags   uint   `json:"flags,omitempty"` // SECCOMP_FILTER_FLAG_* of seccomp(2)
}

// MaxFilter is how many instructions the kernel takes (BPF_MAXINSNS), and
// FilterBytes how long each is.
const (
	MaxFilter   = 4096
	FilterBytes = 8
)

func (f *Seccomp) check() error {
	if n := len(f.Program); n == 0 || n%FilterBytes != 0 || n/FilterBytes > MaxFilter {
		return fmt.Errorf("a seccomp program of %d bytes; it has 1 to %d instructions of %d", n, MaxFilter, FilterBytes)
	}
	return nil
}
