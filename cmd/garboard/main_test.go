package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

func TestMain(m *testing.M) {
	if role := os.Getenv(peakEnv); role != "" {
		hold(role) // does not return, and testscript would leave its directory
	}
	testscript.Main(m, map[string]func(){"garboard": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GARBOARD_CACHE", e.WorkDir+"/cache")
			e.Setenv("GARBOARD_MIRROR", "http://127.0.0.1:9/debian") // nothing may be fetched
			return nil
		},
	})
}

// TestReferenceIsCommitted keeps docs/cli.md what the commands say of themselves.
func TestReferenceIsCommitted(t *testing.T) {
	const golden = "../../docs/cli.md"
	var got bytes.Buffer
	got.WriteString("<!-- Generated from the commands; go test ./cmd/garboard -update writes it. -->\n\n")
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.DisableAutoGenTag = true
		c.InitDefaultHelpFlag()
		var b bytes.Buffer
		if err := doc.GenMarkdownCustom(c, &b, func(s string) string {
			return "#" + strings.ReplaceAll(strings.TrimSuffix(s, ".md"), "_", "-")
		}); err != nil {
			t.Fatal(err)
		}
		got.WriteString(strings.ReplaceAll(b.String(), "(default \""+os.Getenv("HOME"), "(default \"~"))
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() {
				walk(s)
			}
		}
	}
	walk(newRoot())
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(want, got.Bytes()) {
		t.Errorf("%s is not what the commands say (%v); go test ./cmd/garboard -update writes it", golden, err)
	}
}

// TestEveryCommandHasAnExample: help without an example is half a help.
func TestEveryCommandHasAnExample(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if c.Example == "" {
			t.Errorf("%s has no example", c.Name())
		}
	}
}

// TestExitStatus: scripts tell a wrong command line (2) from a failure (1).
func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		args string
		want int
	}{{"version", 0}, {"buidl", 2}, {"build", 2}, {"build --arch vax x.yaml", 2}, {"build missing.yaml", 1}, {"inspect /nonexistent", 1}} {
		if got := Main(strings.Fields("-C " + t.TempDir() + " -q " + c.args)); got != c.want {
			t.Errorf("garboard %s: exit status %d, want %d", c.args, got, c.want)
		}
	}
}
