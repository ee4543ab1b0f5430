// Package seccomp makes the program that the kernel runs on every system call of
// a service out of a profile as container runtimes read them. It does what cri-o
// and crun do with libseccomp, when the image is built: PID 1 has only to hand
// the finished program to the kernel (init/launch).
//
// The form of profiles is that of go.podman.io/common/pkg/seccomp, which cri-o
// reads, with Docker's minKernel; the meaning is that of the linux.seccomp part
// of the OCI runtime specification (config-linux.md).
package seccomp

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	strict "sigs.k8s.io/json"
)

//go:generate go run mkdefault.go ../../overlays/src/crio

//go:embed default.json
var defaultJSON []byte

// Profile is a list of system calls with what happens to each.
type Profile struct {
	DefaultAction   string `json:"defaultAction"`
	DefaultErrnoRet *uint  `json:"defaultErrnoRet,omitempty"`
	DefaultErrno    string `json:"defaultErrno,omitempty"` // name or number; goes before DefaultErrnoRet
	// Architectures whose calls a runtime filters too. A service's program is a
	// native one: calls in another way than the node's own end it.
	Architectures    []string       `json:"architectures,omitempty"`
	ArchMap          []Architecture `json:"archMap,omitempty"`
	Syscalls         []Rule         `json:"syscalls"`
	Flags            []string       `json:"flags,omitempty"`
	ListenerPath     string         `json:"listenerPath,omitempty"`
	ListenerMetadata string         `json:"listenerMetadata,omitempty"`
}

// Architecture is one with those whose programs it runs as well.
type Architecture struct {
	Arch      string   `json:"architecture"`
	SubArches []string `json:"subArchitectures"`
}

// Rule is what happens to some system calls.
type Rule struct {
	Name     string   `json:"name,omitempty"`
	Names    []string `json:"names,omitempty"`
	Action   string   `json:"action"`
	ErrnoRet *uint    `json:"errnoRet,omitempty"`
	Errno    string   `json:"errno,omitempty"` // name or number; goes before ErrnoRet
	Args     []Arg    `json:"args,omitempty"`  // all must hold; see split
	Comment  string   `json:"comment,omitempty"`
	Includes Filter   `json:"includes,omitzero"` // a rule counts where all of it is so,
	Excludes Filter   `json:"excludes,omitzero"` // and nothing of this
}

// Filter selects containers.
type Filter struct {
	Caps      []string `json:"caps,omitempty"`      // such as CAP_SYS_ADMIN
	Arches    []string `json:"arches,omitempty"`    // such as amd64
	MinKernel string   `json:"minKernel,omitempty"` // such as 4.8; Docker's, runtimes of the podman family do not look at it
}

// Arg compares an argument, a number of 64 bits.
type Arg struct {
	Index    uint   `json:"index"` // 0 to 5
	Value    uint64 `json:"value"` // of SCMP_CMP_MASKED_EQ the mask
	ValueTwo uint64 `json:"valueTwo,omitempty"`
	Op       string `json:"op"`
}

// Target is what a profile is compiled for.
type Target struct {
	Arch   string   // amd64 or arm64
	Caps   []string // that the process can have, without CAP_; nil = all
	Kernel string   // release, such as 6.12.117+deb13-amd64; "" = newer than any that a profile names
}

// Default is the profile that cri-o gives containers as RuntimeDefault, and
// the versions it is from.
func Default() (*Profile, string, error) {
	var d struct {
		Source  string
		Profile json.RawMessage
	}
	if err := json.Unmarshal(defaultJSON, &d); err != nil {
		return nil, "", fmt.Errorf("the default seccomp profile: %w", err)
	}
	p, err := Parse(d.Profile)
	if err != nil {
		return nil, "", fmt.Errorf("the default seccomp profile (%s): %w", d.Source, err)
	}
	return p, d.Source, nil
}

// Parse reads a profile and checks all that can be said of it without a target.
func Parse(b []byte) (*Profile, error) {
	var p Profile
	problems, err := strict.UnmarshalStrict(b, &p)
	if err != nil {
		return nil, fmt.Errorf("not a seccomp profile: %w", err)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return &p, p.check()
}
