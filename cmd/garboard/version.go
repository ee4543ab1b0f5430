package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"garboard.local/builder/recipe"
)

// Version of Garboard.
const Version = "0.1.0"

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  garboard version --json", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version, Go, Platform, Revision string
			}{Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, revision()}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), v)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "garboard %s (%s, %s, revision %s)\n", v.Version, v.Go, v.Platform, v.Revision)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON schema of recipes, for editors",
		Example: "  garboard schema > docs/recipe.schema.json", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := recipe.Schema()
			if err == nil {
				_, err = cmd.OutOrStdout().Write(s)
			}
			return err
		},
	}
}
