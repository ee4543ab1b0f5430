package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"garboard.local/builder"
	"garboard.local/builder/licence"
	"garboard.local/builder/recipe"
	"garboard.local/builder/release"
	"garboard.local/builder/report"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

const (
	keyEnv        = "GARBOARD_SIGNING_KEY"
	passphraseEnv = "GARBOARD_SIGNING_PASSPHRASE"
)

// releaseRecipes are released unless others are named.
var releaseRecipes = []string{"node", "node-containerd", "metal"}

func releaseCommand(g *global) *cobra.Command {
	r := releaser{global: g}
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Build everything for release, with checksums, licences, sources list and signature",
		Long: `Release builds recipes/node.yaml, node-containerd.yaml and metal.yaml, or those of
--recipe, for both architectures in the small setting, and puts into one directory:

  <recipe>-<arch>.*      the artefacts; disk images compressed with zstd
  garboard.lock          the lock they were built from
  SOURCES                sources of what is under the GPL and its like, and how to fetch them
  THIRD-PARTY-LICENCES   the licence texts of everything in the images
  SHA256SUMS             of all of it; SHA256SUMS.asc is its OpenPGP signature

The private key comes from --key or, as text, from $` + keyEnv + `; if it is
locked, its passphrase comes from $` + passphraseEnv + `. Neither is written
anywhere. Without a key the release is unsigned. The signature is checked with
the key's public half, and again by gpgv from a pinned package.

The directory is written whole or not at all. It may be missing, empty, or an
earlier release, which is replaced. The same sources and lock give the same
bytes, the signature excepted.`,
		Example: `  garboard release
  garboard release --key release-key.asc
  garboard release --fast --recipe recipes/node.yaml --output /tmp/dist   # to try it`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.out = cmd.OutOrStdout()
			return r.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.recipes, "recipe", nil, "release these recipes instead (repeatable)")
	f.StringVar(&r.arch, "arch", "all", "architecture: amd64, arm64 or all")
	f.BoolVar(&r.fast, "fast", false, "compress fast: to try it, not to publish it")
	f.StringVar(&r.keyFile, "key", "", "file with the private OpenPGP key; default: $"+keyEnv)
	f.StringVarP(&r.output, "output", "o", "dist", "the release goes here")
	f.StringVar(&r.work, "build", filepath.Join("out", "release"), "the builds go below this directory first")
	cmd.RegisterFlagCompletionFunc("recipe", completeRecipes)
	cmd.RegisterFlagCompletionFunc("arch", cobra.FixedCompletions([]string{"amd64", "arm64", "all"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// releaser makes a release.
type releaser struct {
	*global
	recipes                     []string
	arch, keyFile, output, work string
	fast                        bool
	out                         io.Writer
}

func (r *releaser) run(ctx context.Context) error {
	// What can be wrong is looked at before minutes are spent.
	if _, err := arches(r.arch); err != nil {
		return err
	}
	key, err := signingKey(r.keyFile)
	if err != nil {
		return err
	}
	if err := release.Check(r.output); err != nil {
		return err
	}
	o, stop, err := r.options()
	if err != nil {
		return err
	}
	stop() // of the build, which has its own
	recipes, err := r.load(o.Root)
	if err != nil {
		return err
	}
	flags := buildFlags{arch: r.arch, output: r.work, small: !r.fast, gone: "error"}
	results, err := flags.build(ctx, r.global, r.recipes)
	if err != nil {
		return err
	}
	if o, stop, err = r.options(); err != nil {
		return err
	}
	defer stop()
	rel, err := gather(ctx, o, recipes, results)
	if err != nil {
		return err
	}
	if rel.Key = key; key != nil {
		rel.Check = func(ctx context.Context, dir string) error { return gpgv(ctx, o, key, dir) }
	}
	abs, err := filepath.Abs(r.output)
	if err != nil {
		return err
	}
	unlock, err := o.Store.Lock(ctx, store.Key("release", abs))
	if err != nil {
		return err
	}
	defer unlock()
	t := o.Progress.Start("write", "release "+r.output, 0)
	written, err := rel.Write(ctx, r.output)
	if err != nil {
		t.Fail(err)
		return err
	}
	t.Done("")
	for _, a := range written {
		fmt.Fprintf(r.out, "  %10.1f MB  %s\n", float64(a.Size)/1e6, filepath.Join(r.output, a.Name))
	}
	if key == nil {
		fmt.Fprintf(r.out, "UNSIGNED: no key was given (--key FILE or $%s)\n", keyEnv)
		return nil
	}
	fmt.Fprintf(r.out, "signed by %s, checked by gpgv\n", key.Fingerprint())
	return nil
}

// load reads the recipes to release, by name.
func (r *releaser) load(root string) (map[string]*recipe.Recipe, error) {
	if len(r.recipes) == 0 {
		for _, name := range releaseRecipes {
			r.recipes = append(r.recipes, filepath.Join(root, "recipes", name+".yaml"))
		}
	}
	out := map[string]*recipe.Recipe{}
	names := map[string]string{}
	for _, f := range r.recipes {
		rcp, err := recipe.Load(f)
		if err != nil {
			return nil, err
		}
		if other, ok := names[rcp.Name]; ok {
			return nil, usageError{fmt.Errorf("recipes %s and %s are both called %s; a release names files by it", other, f, rcp.Name)}
		}
		out[rcp.Name], names[rcp.Name] = rcp, f
	}
	return out, nil
}

// gather is the release of what was built, unsigned.
func gather(ctx context.Context, o builder.Options, recipes map[string]*recipe.Recipe, results []*builder.Result) (release.Release, error) {
	var rel release.Release
	var dirs []string
	var manifests []*report.Manifest
	var notices licence.Notices
	for _, res := range results {
		m, err := report.ReadManifest(res.Dir)
		if err != nil {
			return rel, err
		}
		if err := builder.Notices(ctx, o, recipes[res.Recipe], m, &notices); err != nil {
			return rel, err
		}
		sums, err := os.ReadFile(filepath.Join(res.Dir, report.SumsName))
		if err != nil {
			return rel, err
		}
		if string(sums) != string(report.Sums(res.Artefacts)) {
			return rel, fmt.Errorf("%s is not what was just built; does another build write there?", res.Dir)
		}
		dirs, manifests = append(dirs, res.Dir), append(manifests, m)
		rel.Images = append(rel.Images, release.Image{Recipe: res.Recipe, Arch: res.Arch, Dir: res.Dir, Artefacts: res.Artefacts})
	}
	if err := builder.AddCommonLicences(ctx, o, &notices); err != nil {
		return rel, err
	}
	list, err := sourcesOf(dirs, false)
	if err != nil {
		return rel, err
	}
	var sources []release.Source
	for _, s := range list {
		sources = append(sources, release.Source(s))
	}
	rel.Sources, rel.Licences = release.SourcesText(sources, manifests), notices.Text()
	return rel, nil
}

// signingKey is the key of the flag or of the environment; nil is none. It takes
// key and passphrase out of the environment, which compilers and tools inherit.
func signingKey(file string) (*release.Key, error) {
	from, body, passphrase := "$"+keyEnv, []byte(os.Getenv(keyEnv)), []byte(os.Getenv(passphraseEnv))
	if err := errors.Join(os.Unsetenv(keyEnv), os.Unsetenv(passphraseEnv)); err != nil {
		return nil, err
	}
	if file != "" {
		var err error
		if body, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("signing key: %w", err)
		}
		from = file
	} else if len(body) == 0 { // an unset secret of a CI service is an empty variable
		return nil, nil
	}
	return release.ReadKey(from, body, passphrase, "$"+passphraseEnv, time.Now)
}

// gpgv checks the signature with another program than the one that made it.
func gpgv(ctx context.Context, o builder.Options, key *release.Key, dir string) error {
	root, _, err := builder.HostTools(ctx, o, "gpgv")
	if err != nil {
		return err
	}
	public, err := key.Public()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "garboard-gpgv-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ring := filepath.Join(tmp, "public.gpg")
	if err := os.WriteFile(ring, public, 0o600); err != nil {
		return err
	}
	cmd := debian.Command(ctx, root, "gpgv", "--homedir", tmp, "--keyring", ring,
		filepath.Join(dir, release.SignatureName), filepath.Join(dir, report.SumsName))
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("gpgv: %w: %s", err, said)
	}
	return nil
}
