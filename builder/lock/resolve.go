package lock

import (
	"context"
	"fmt"
	"slices"

	"garboard.local/builder/source/debian"
)

// Archive answers what the lock asks of Debian; *debian.Archive does.
type Archive interface {
	SuiteNames() []string
	ResolveRequest(context.Context, debian.Request) ([]debian.Package, error)
}

// Requests say what a lock has to hold.
type Requests struct {
	Packages map[string][]string // wanted on nodes, by architecture: names
	Exclude  []string            // packages that are not followed for nodes (see debian.Request)

	Tools       []string // wanted by the build itself: names
	ToolExclude []string // packages that are not followed for tools
	ToolArchs   []string // of build hosts; nil means amd64 and arm64

	OCI    map[string][]string // images in registries, by architecture: references
	AskOCI ResolveOCI          // required if there are any

	ComponentsDir string // overlays/src
	GoVersion     string // such as 1.26.8
}

// Resolve makes a lock anew: the newest of everything.
func Resolve(ctx context.Context, a Archive, q Requests) (*Lock, error) {
	components, err := readComponents(q.ComponentsDir)
	if err != nil {
		return nil, err
	}
	images, err := resolveOCI(ctx, q.AskOCI, q.OCI)
	if err != nil {
		return nil, err
	}
	l := &Lock{Version: formatVersion, Go: q.GoVersion, Components: components, OCI: images}
	return l, l.resolveDebian(ctx, a, q, func([]debian.Package) []debian.Package { return nil })
}

// Repair makes a lock from old in which the packages gone are replaced by what
// the archive has now. Everything else stays as it is, except what the
// replacements need newer and what came from the same upload (source package and
// version) as a gone package: that goes together and would be gone next. Packages
// that nothing needs any more fall out. Components and the Go version stay.
// The changes are those from old to the new lock.
func Repair(ctx context.Context, a Archive, old *Lock, q Requests, gone []debian.Package) (*Lock, []Change, error) {
	superseded := func(p debian.Package) bool {
		return slices.ContainsFunc(gone, func(g debian.Package) bool {
			return p.SHA256 == g.SHA256 || p.Source == g.Source && p.SourceVersion == g.SourceVersion
		})
	}
	l := *old
	err := l.resolveDebian(ctx, a, q, func(ps []debian.Package) []debian.Package {
		return slices.DeleteFunc(slices.Clone(ps), superseded)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w (while replacing %d packages that are gone)", err, len(gone))
	}
	return &l, Diff(old, &l), nil
}

// resolveDebian replaces the packages of the lock, keeping those that keep
// chooses from the ones there are.
func (l *Lock) resolveDebian(ctx context.Context, a Archive, q Requests, keep func([]debian.Package) []debian.Package) error {
	packages, tools := map[string][]debian.Package{}, map[string][]debian.Package{}
	for _, arch := range sortedKeys(q.Packages) {
		ps, err := a.ResolveRequest(ctx, debian.Request{Arch: arch, Names: q.Packages[arch], Exclude: q.Exclude, Keep: keep(l.Debian.Packages[arch])})
		if err != nil {
			return fmt.Errorf("lock: packages for %s: %w", arch, err)
		}
		packages[arch] = ps
	}
	archs := q.ToolArchs
	if archs == nil {
		archs = []string{"amd64", "arm64"}
	}
	for _, arch := range archs {
		ps, err := a.ResolveRequest(ctx, debian.Request{Arch: arch, Names: q.Tools, Exclude: q.ToolExclude, Keep: keep(l.Tools[arch])})
		if err != nil {
			return fmt.Errorf("lock: tools for %s: %w", arch, err)
		}
		tools[arch] = ps
	}
	l.Debian = Debian{Suites: a.SuiteNames(), Packages: packages}
	l.Tools = tools
	return nil
}
