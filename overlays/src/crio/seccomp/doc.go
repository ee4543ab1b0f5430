// Package seccomp stands in for github.com/seccomp/libseccomp-golang, so that
// cri-o compiles with seccomp and without cgo.
//
// cri-o does not load filters, the OCI runtime does. What cri-o asks of
// libseccomp is the native architecture's name, to select rules of a profile,
// and user notifications, to report forbidden system calls of containers that
// carry its notifier annotation. Both are here, over the kernel's interface of
// seccomp_unotify(2). The filter builder is not: [NewFilter] returns
// [ErrNoFilters], and so does everything that would have to follow it.
//
// Names, values and meanings are those of version 0.11.1. What cri-o and
// go.podman.io/common do not use is left out, so that a new use in a later
// version fails to compile instead of misbehaving.
package seccomp

//go:generate sh -c "go run mktable.go $(cd ../../../.. && go list -m -f '{{.Dir}}' golang.org/x/sys)/unix"
