package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"garboard.local/builder"
	"garboard.local/builder/store"
)

const (
	limitEnv     = "GARBOARD_CACHE_LIMIT"
	defaultLimit = "20G" // both architectures, all test tools and some weeks of changes fit
	// unused is how long ago something must have been used for a build to remove
	// it unasked: who builds in turns should not build everything anew each time.
	unused = time.Hour
)

func cacheCommand(g *global) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show what the cache holds; gc removes what was used longest ago",
		Long: `Cache shows the size of the content-addressed cache of everything that was fetched
or built: ~/.cache/garboard, or $GARBOARD_CACHE.

A build that added something keeps it below a limit, ` + defaultLimit + ` or $` + limitEnv + ` (a Kubernetes
quantity such as 5G or 800Mi, or "none"): it removes what was used longest ago,
but nothing that was used within the hour or that a running garboard may be using.`,
		Example: `  garboard cache
  garboard cache gc --limit 5G
  garboard cache gc --limit 0     # all that no running garboard uses`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := openStore()
			if err != nil {
				return err
			}
			defer s.Close()
			u, err := s.Usage()
			if err != nil {
				return err
			}
			limit, err := cacheLimit(os.Getenv(limitEnv))
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), struct {
					store.Usage
					Limit int64 `json:"limit"` // bytes; -1: none
				}{u, limit})
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s\n%9.1f MB in %d files and %d results of steps\n", u.Dir, float64(u.Bytes)/1e6, u.Blobs, u.Actions)
			if limit >= 0 {
				fmt.Fprintf(out, "%9.1f MB is the limit\n", float64(limit)/1e6)
			}
			if !u.Oldest.IsZero() {
				fmt.Fprintf(out, "oldest: last used %s\n", u.Oldest.Format(time.RFC3339))
			}
			fmt.Fprintf(out, "other running garboards: %d\n", u.Leases-1)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.AddCommand(cacheCollectCommand())
	return cmd
}

func cacheCollectCommand() *cobra.Command {
	var flag string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what was used longest ago until the rest fits the limit",
		Example: `  garboard cache gc
  garboard cache gc --limit 5G`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("limit") {
				flag = os.Getenv(limitEnv)
			}
			limit, err := cacheLimit(flag)
			if err != nil {
				return err
			}
			if limit < 0 {
				return usageError{errors.New("there is no limit; give one, such as --limit 5G")}
			}
			s, err := openStore()
			if err != nil {
				return err
			}
			defer s.Close()
			c, err := s.Collect(cmd.Context(), limit, 0)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), c)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: removed %d, %.1f MB; %.1f MB left, of which %.1f MB may be in use\n",
				s.Dir(), c.Removed, float64(c.Freed)/1e6, float64(c.Left)/1e6, float64(c.InUse)/1e6)
			return nil
		},
	}
	cmd.Flags().StringVar(&flag, "limit", defaultLimit, "how much may stay, such as 5G or 800Mi; default: $"+limitEnv+", else")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// cacheLimit reads a limit in bytes; -1 is none.
func cacheLimit(s string) (int64, error) {
	switch s {
	case "":
		s = defaultLimit
	case "none":
		return -1, nil
	}
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() < 0 {
		return 0, usageError{fmt.Errorf("cache limit %q is not a size such as 5G, 800Mi or none ($%s)", s, limitEnv)}
	}
	return q.Value(), nil
}

func openStore() (*store.Store, error) {
	dir, err := store.DefaultDir()
	if err != nil {
		return nil, err
	}
	return store.Open(dir)
}

// tidy keeps the cache below its limit after a build that added to it.
func tidy(ctx context.Context, o builder.Options) error {
	limit, err := cacheLimit(os.Getenv(limitEnv))
	if err != nil || limit < 0 || o.Store.Made() == 0 {
		return err
	}
	c, err := o.Store.Collect(ctx, limit, unused)
	if err != nil {
		return err
	}
	if c.Removed > 0 {
		o.Progress.Start("tidy", "the cache", 0).Done(fmt.Sprintf("removed %d that were used longest ago, %.1f MB", c.Removed, float64(c.Freed)/1e6))
	}
	return nil
}
