package debian

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pault.ag/go/debian/dependency"
	"pault.ag/go/debian/version"
)

// Request is a question to the resolver.
type Request struct {
	Arch  string   // amd64, arm64
	Names []string // real packages, not virtual ones

	// Exclude names packages that are not followed: a relation that one of
	// them would satisfy counts as satisfied and appears in no Depends.
	Exclude []string

	// Keep pins versions: a kept package is preferred to any other version of
	// it, and given up only where what is wanted cannot be had with it.
	Keep []Package
}

// Resolve is ResolveRequest for the plain case: the named packages of arch (with
// those of architecture "all") and everything that they need, without what only
// excluded packages need.
func (a *Archive) Resolve(ctx context.Context, arch string, names []string, exclude ...string) ([]Package, error) {
	return a.ResolveRequest(ctx, Request{Arch: arch, Names: names, Exclude: exclude})
}

// ResolveRequest returns the closure of the named packages over Depends and
// Pre-Depends, sorted by name, each package in its highest version that
// satisfies every relation. Of alternatives, one that is in the closure already
// wins, then the first that exists. A virtual package is provided by what is in
// the closure already, else by the provider of highest priority, then first name.
// The same request to the same archive has the same answer.
func (a *Archive) ResolveRequest(ctx context.Context, q Request) ([]Package, error) {
	ix, err := a.index(ctx, q.Arch)
	if err != nil {
		return nil, err
	}
	return ix.resolve(q)
}

// resolver carries what is learnt over the attempts: an attempt goes forward
// only; where it fails on an earlier choice, that is noted and the next begins anew.
type resolver struct {
	*index
	arch    string
	exclude map[string]bool
	keep    map[string]*record
	must    map[string][]requirement // what the choice of a name has to satisfy
}

type requirement struct {
	dependency.Possibility
	by *record
}

// errAgain says that something was learnt and the next attempt may succeed.
var errAgain = errors.New("again")

func (ix *index) resolve(q Request) ([]Package, error) {
	r := &resolver{index: ix, arch: q.Arch, exclude: map[string]bool{}, keep: map[string]*record{}, must: map[string][]requirement{}}
	for _, n := range q.Exclude {
		r.exclude[n] = true
	}
	for _, p := range q.Keep {
		rec, err := ix.kept(p)
		if err != nil {
			return nil, err
		}
		r.keep[p.Name] = rec
	}
	names := slices.Compact(slices.Sorted(slices.Values(q.Names)))
	for {
		out, err := r.attempt(names)
		if err != errAgain {
			return out, err
		}
	}
}

// kept is the record of a kept package: the index's own if it still lists it.
func (ix *index) kept(p Package) (*record, error) {
	for _, r := range ix.byName[p.Name] {
		if r.SHA256 == p.SHA256 {
			return r, nil
		}
	}
	v, err := version.Parse(p.Version)
	if err != nil {
		return nil, fmt.Errorf("package %s: version %q: %w", p.Name, p.Version, err)
	}
	r := &record{Package: p, version: v, resolved: true}
	if l := ix.byName[p.Name]; len(l) > 0 {
		r.provides = l[0].provides
	}
	return r, nil
}

func (r *resolver) attempt(names []string) ([]Package, error) {
	chosen := map[string]*record{}
	needs := map[string][]string{}
	var queue []*record
	choose := func(rec *record) {
		if chosen[rec.Name] == nil {
			chosen[rec.Name] = rec
			queue = append(queue, rec)
		}
	}
	var errs []error
	for _, n := range names {
		rec := r.pick(dependency.Possibility{Name: n})
		if rec == nil || rec.Name != n {
			errs = append(errs, r.unknown(n))
			continue
		}
		choose(rec)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for len(queue) > 0 {
		rec := queue[0]
		queue = queue[1:]
		relations, err := rec.relations()
		if err != nil {
			return nil, err
		}
		for _, rel := range relations {
			target, err := r.satisfy(rel, rec, chosen)
			if err != nil {
				return nil, err
			}
			if target != nil {
				needs[rec.Name] = append(needs[rec.Name], target.Name)
				choose(target)
			}
		}
	}
	var out []Package
	for _, n := range slices.Sorted(maps.Keys(chosen)) {
		p := chosen[n].Package
		slices.Sort(needs[n])
		p.Depends = slices.DeleteFunc(slices.Compact(needs[n]), func(d string) bool { return d == n })
		out = append(out, p)
	}
	return out, nil
}

func (r *record) relations() ([]dependency.Relation, error) {
	if r.resolved {
		var out []dependency.Relation
		for _, d := range r.Depends {
			out = append(out, dependency.Relation{Possibilities: []dependency.Possibility{{Name: d}}})
		}
		return out, nil
	}
	if r.depends == "" {
		return nil, nil
	}
	d, err := dependency.Parse(r.depends)
	if err != nil {
		return nil, fmt.Errorf("package %s %s: relations %q: %w", r.Name, r.Version, r.depends, err)
	}
	return d.Relations, nil
}

// satisfy returns the package that satisfies the relation that rec has, or nil
// where an excluded one does.
func (r *resolver) satisfy(rel dependency.Relation, rec *record, chosen map[string]*record) (*record, error) {
	for _, p := range rel.Possibilities {
		if c := chosen[p.Name]; c != nil && c.satisfies(p) {
			return c, nil
		}
		for _, provider := range r.provided[p.Name] {
			if c := chosen[provider.Name]; c != nil && c.satisfies(p) {
				return c, nil
			}
		}
	}
	for _, p := range rel.Possibilities {
		if r.exclude[p.Name] {
			return nil, nil
		}
		if !r.native(p) {
			continue
		}
		c := r.pick(p)
		if c == nil {
			continue
		}
		if chosen[c.Name] == nil {
			return c, nil
		}
		// Another version was chosen before this relation was known.
		r.must[c.Name] = append(r.must[c.Name], requirement{p, rec})
		return nil, errAgain
	}
	if r.giveUp(rel, rec) {
		return nil, errAgain
	}
	return nil, r.unsatisfied(rel, rec)
}

// giveUp stops keeping the packages that stand in the way of a relation: the one
// that has it, or those whose demands left nothing to satisfy it with.
func (r *resolver) giveUp(rel dependency.Relation, rec *record) bool {
	before := len(r.keep)
	drop := func(c *record) {
		if r.keep[c.Name] == c {
			delete(r.keep, c.Name)
		}
	}
	drop(rec)
	for _, p := range rel.Possibilities {
		for _, m := range r.must[p.Name] {
			drop(m.by)
		}
	}
	if len(r.keep) == before {
		return false
	}
	clear(r.must) // some of it may have come from versions that are given up
	return true
}

// native says whether the possibility is about packages of the architecture
// that is resolved ("python3", "python3:any"), not of another ("wine32:i386").
func (r *resolver) native(p dependency.Possibility) bool {
	if p.Arch == nil {
		return true
	}
	a := p.Arch.String()
	return a == "any" || a == r.arch || a == "all"
}

// pick is the best package for a possibility: under its own name, kept before
// highest; else the best provider, kept before others.
func (r *resolver) pick(p dependency.Possibility) *record {
	if c := r.best(p.Name, p); c != nil {
		return c
	}
	var first *record
	for _, provider := range r.provided[p.Name] {
		c := r.best(provider.Name, p)
		if c == nil || r.exclude[c.Name] {
			continue
		}
		if r.keep[c.Name] == c {
			return c
		}
		if first == nil {
			first = c
		}
	}
	return first
}

func (r *resolver) best(name string, p dependency.Possibility) *record {
	fits := func(c *record) bool {
		for _, m := range r.must[name] {
			if !c.satisfies(m.Possibility) {
				return false
			}
		}
		return c.satisfies(p)
	}
	if k := r.keep[name]; k != nil && fits(k) {
		return k
	}
	for _, c := range r.byName[name] {
		if fits(c) {
			return c
		}
	}
	return nil
}

func (r *resolver) unsatisfied(rel dependency.Relation, rec *record) error {
	var there []string
	for _, p := range rel.Possibilities {
		for _, c := range r.byName[p.Name] {
			there = append(there, c.Name+" "+c.Version)
		}
		for _, m := range r.must[p.Name] {
			there = append(there, m.by.Name+" needs "+m.String())
		}
	}
	if there == nil {
		there = []string{"no package of that name"}
	}
	return fmt.Errorf("package %s %s (%s) depends on %q, which nothing in %s satisfies (there: %s)",
		rec.Name, rec.Version, rec.Architecture, rel.String(), r.where, strings.Join(there, "; "))
}
