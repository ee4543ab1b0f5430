package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"garboard.local/builder"
	"garboard.local/builder/recipe"
)

// memory prints what builds of the node need from a cache that holds nothing but
// downloads: each setting with the compiled components of the usual cache, then
// everything compiled with an empty Go cache.
func (r *repro) memory(ctx context.Context, o builder.Options, settings []string) error {
	const file = "recipes/node.yaml"
	rcp, err := recipe.Load(filepath.Join(o.Root, file))
	if err != nil {
		return err
	}
	as, err := arches(r.arch)
	if err != nil {
		return err
	}
	if o.Lock == nil {
		return fmt.Errorf("there is no lock; `garboard lock` makes it")
	}
	goCache, shared, err := sharedGo(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%s, %s, %d CPUs\n\n| build | seconds | largest process (MiB) | all processes together (MiB) |\n|---|---|---|---|\n", time.Now().UTC().Format(time.DateOnly), r.arch, runtime.NumCPU())
	one := func(name, setting string, compile bool) error {
		scratch, err := o.Store.Scratch("bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(scratch)
		c := usual(o, scratch, shared)
		if err := c.make(o); err != nil {
			return err
		}
		if compile {
			goCache = filepath.Join(scratch, "go")
		} else if err := r.seedComponents(ctx, o, rcp, as, c.cache); err != nil {
			return err
		}
		c.env = append(c.env, "GOCACHE="+goCache)
		r.small, r.gone = setting == "small", "error"
		cmd, err := r.command(ctx, c, file)
		if err != nil {
			return err
		}
		p, err := measure(ctx, cmd, nil)
		if err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		fmt.Fprintf(r.out, "| %s | %.0f | %d | %d |\n", name, p.Seconds, p.Largest>>20, p.Together>>20)
		return nil
	}
	for _, s := range settings {
		if err := one(s+", components compiled before", s, false); err != nil {
			return err
		}
	}
	return one("fast, everything compiled with an empty Go cache", "fast", true)
}
