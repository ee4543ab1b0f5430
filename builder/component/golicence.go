package component

import (
	"context"
	"fmt"
	"os"
	"strings"

	"garboard.local/builder/licence"
)

// GoLicences are the licence files of the Go distribution itself, whose runtime
// and library are in every program.
func GoLicences(ctx context.Context, opts Options) ([]licence.File, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	g, err := newGoCommand(ctx, opts)
	if err != nil {
		return nil, err
	}
	out, err := g.output(ctx, os.TempDir(), "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	root := strings.TrimSpace(string(out))
	files, err := licence.Files(os.DirFS(root))
	if err != nil {
		return nil, fmt.Errorf("licence of Go: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no LICENSE of Go %s; a Go from go.dev has one", root, opts.GoVersion)
	}
	return files, nil
}
