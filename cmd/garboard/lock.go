package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"garboard.local/builder"
	"garboard.local/builder/lock"
	"garboard.local/builder/recipe"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/source/oci"
	"garboard.local/qemu/satarom"
)

// hostTools are the Debian packages whose programs run on the build host.
func hostTools() []string {
	return slices.Concat(builder.BuildTools, builder.DiskTools, builder.ISOTools, machineTools, judgeTools, clockTools, releaseTools)
}

var (
	// machineTools are QEMU and its firmware, for hosts that have none recent enough.
	machineTools = []string{"qemu-system-x86", "qemu-system-arm", "qemu-efi-aarch64", "ovmf", "seabios"}
	// judgeTools are other people's programs that tests judge our output with.
	judgeTools = []string{"cpio", "libarchive-tools", "gdisk", "fdisk", "e2fsprogs", "dosfstools", "mtools", "binutils", "systemd", "systemd-ukify", builder.StubPackage, "ipxe"}
	// clockTools show other programs another day (garboard repro).
	clockTools = []string{"libfaketime"}
	// releaseTools hold the licences that Debian's copyright files refer to, and
	// check a release's signature with other people's code.
	releaseTools = []string{builder.CommonLicences, "gpgv"}
)

func lockCommand(g *global) *cobra.Command {
	var check, asJSON bool
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Resolve every input anew and write " + lock.FileName,
		Long: `Lock resolves the packages that the recipes in recipes/ name, for both
architectures, the host tools, and the Go components, and writes ` + lock.FileName + `. It prints
what changed. The archive's signature is verified on the way.`,
		Example: `  garboard lock
  garboard lock --check    # exit status 1 if the lock is not what it would be now`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, stop, err := g.options()
			if err != nil {
				return err
			}
			req, err := requests(o.Root)
			if err == nil {
				req.GoVersion = goVersion(o.Lock)
			}
			if err != nil {
				stop()
				return err
			}
			fresh, err := lock.Resolve(cmd.Context(), o.Archive, req)
			stop()
			if err != nil {
				return err
			}
			old := o.Lock
			if old == nil {
				old = &lock.Lock{}
			}
			changes := lock.Diff(old, fresh)
			fresh.Time = time.Now().UTC().Truncate(time.Second)
			if asJSON {
				if err := writeJSON(cmd.OutOrStdout(), changes); err != nil {
					return err
				}
			} else {
				lock.Print(cmd.OutOrStdout(), changes)
			}
			file := filepath.Join(o.Root, lock.FileName)
			switch {
			case len(changes) == 0 && o.Lock != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "%s is up to date\n", file)
				return nil
			case check:
				return errors.New("the lock is not what it would be now; `garboard lock` updates it")
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d changes; commit it\n", file, len(changes))
			return fresh.Write(file)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; fail if something would change")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the changes as JSON")
	return cmd
}

// goVersion is the toolchain for components: the lock's, or for a first lock the one in use.
func goVersion(l *lock.Lock) string {
	if l != nil {
		return l.Go
	}
	return runtime.Version()[len("go"):]
}

// requests gathers what all recipes of the repository ask for.
func requests(root string) (lock.Requests, error) {
	req := lock.Requests{Packages: map[string][]string{}, OCI: map[string][]string{}, AskOCI: oci.Resolve, Tools: slices.Concat(hostTools(), satarom.Packages), ComponentsDir: filepath.Join(root, builder.ComponentsDir), Exclude: builder.NotFollowed, ToolExclude: satarom.Unused}
	files, err := filepath.Glob(filepath.Join(root, "recipes", "*.yaml"))
	if err != nil {
		return req, err
	}
	if len(files) == 0 {
		return req, fmt.Errorf("%s holds no recipe", filepath.Join(root, "recipes"))
	}
	for _, f := range files {
		r, err := recipe.Load(f)
		if err != nil {
			return req, err
		}
		for _, arch := range recipe.Arches {
			a, err := r.For(arch)
			if err != nil {
				return req, err
			}
			for _, n := range builder.PackageNames(a) {
				if !slices.Contains(req.Packages[arch], n) {
					req.Packages[arch] = append(req.Packages[arch], n)
				}
			}
			for _, ref := range a.OCI() {
				if !slices.Contains(req.OCI[arch], ref) {
					req.OCI[arch] = append(req.OCI[arch], ref)
				}
			}
		}
	}
	return req, nil
}

// repair replaces packages that are gone from every mirror, in memory only:
// the committed lock is a person's to change.
func repair(ctx context.Context, o builder.Options, gone []debian.Package) (*lock.Lock, error) {
	req, err := requests(o.Root)
	if err != nil {
		return nil, err
	}
	req.GoVersion = goVersion(o.Lock)
	fresh, changes, err := lock.Repair(ctx, o.Archive, o.Lock, req, gone)
	if err != nil {
		return nil, err
	}
	fresh.Time = o.Lock.Time
	t := o.Progress.Start("relock", "packages that are gone from all mirrors", 0)
	note := ""
	for _, c := range changes {
		note += fmt.Sprintf("\n  %v", c)
	}
	t.Done("this build uses what follows; `garboard lock` makes it last:" + note)
	return fresh, nil
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, %q was given", commandName(cmd), args[0])}
	}
	return nil
}
