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

// nodeRecipe is what builds are measured with.
const nodeRecipe = "recipes/node.yaml"

// measuredBuilds are the kinds of build that bench --memory knows.
var measuredBuilds = map[string]struct {
	text           string
	small, compile bool
}{
	"fast":    {"fast, components compiled before", false, false},
	"small":   {"small, components compiled before", true, false},
	"compile": {"fast, everything compiled with an empty Go cache", false, true},
}

// memory prints what builds of the node need from a cache that holds nothing but
// downloads: with the compiled components of the usual cache, or everything compiled.
func (r *repro) memory(ctx context.Context, o builder.Options, kinds []string) error {
	for _, k := range kinds {
		if _, ok := measuredBuilds[k]; !ok {
			return usageError{fmt.Errorf("--memory %q: known are fast, small and compile", k)}
		}
	}
	rcp, err := recipe.Load(filepath.Join(o.Root, nodeRecipe))
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
	fmt.Fprintf(r.out, "%s, %s, %d CPUs\n\n| build | seconds | largest process (MiB) | all processes together (MiB) |\n|---|---|---|---|\n", time.Now().UTC().Format(time.DateOnly), r.arch, runtime.NumCPU())
	for _, k := range kinds {
		kind := measuredBuilds[k]
		p, err := r.measureBuild(ctx, o, rcp, as, kind.small, kind.compile)
		if err != nil {
			return fmt.Errorf("build %s: %w", k, err)
		}
		fmt.Fprintf(r.out, "| %s | %.0f | %d | %d |\n", kind.text, p.Seconds, p.Largest>>20, p.Together>>20)
	}
	return nil
}

// measureBuild builds once, in circumstances of its own.
func (r *repro) measureBuild(ctx context.Context, o builder.Options, rcp *recipe.Recipe, as []string, small, compile bool) (p peak, err error) {
	goCache, shared, err := sharedGo(ctx)
	if err != nil {
		return p, err
	}
	scratch, err := o.Store.Scratch("bench")
	if err != nil {
		return p, err
	}
	defer os.RemoveAll(scratch)
	c := usual(o, scratch, shared)
	if err := c.make(o); err != nil {
		return p, err
	}
	if compile {
		goCache = filepath.Join(scratch, "go")
	} else if err := r.seedComponents(ctx, o, rcp, as, c.cache); err != nil {
		return p, err
	}
	c.env = append(c.env, "GOCACHE="+goCache)
	r.small, r.gone = small, "error"
	cmd, err := r.command(ctx, c, nodeRecipe)
	if err != nil {
		return p, err
	}
	return measure(ctx, cmd, nil)
}
