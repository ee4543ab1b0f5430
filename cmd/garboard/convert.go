package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"garboard.local/builder/unpack"
	"garboard.local/init/table"
	"garboard.local/pod"
	"garboard.local/pod/manifest"
	"garboard.local/pod/systemd"
)

// convertFlags are what `garboard convert` is asked for.
type convertFlags struct {
	to, output, status     string
	explain, asJSON, prune bool
	options                pod.Options
	machine                systemd.Options
	images                 imageFlags
	global                 *global
}

func convertCommand(g *global) *cobra.Command {
	f := &convertFlags{global: g}
	cmd := &cobra.Command{
		Use:   "convert {POD.yaml | DIRECTORY | -}...",
		Short: "Turn Pod manifests into systemd units, or into services of PID 1",
		Long: `Convert reads Pod manifests (several documents in a file, or a List; the *.yaml,
*.yml and *.json files of a directory; - is standard input) and writes what they mean
as services of a machine. A DaemonSet is the one pod that it has on a machine; other
kinds that make pods are refused. ConfigMap and Secret documents beside the Pods are
what their references are resolved from. What a field becomes is in
docs/pod-mapping.md; nothing is dropped silently. A manifest with a field that cannot
be had, or that an API server would refuse, is refused as a whole, with every reason.

Without --output the units are printed. With it they are written to
DIR/etc/systemd/system and their files to DIR/etc/garboard/pods; "/" is this machine.
Units that an earlier manifest of the same pod left there are removed. Then:

  systemctl daemon-reload
  systemctl enable --now pod-NAMESPACE-NAME.target

With --images containers have the files of their images for a root directory, and run
what the image says where the manifest is silent. --image and --pull unpack images
there: DIR/IMAGE is a link to a directory that is named by the image's digest, so an
image that has not changed is not unpacked again, and one that has changes the units.
As root files get the owners and capabilities that they have in the image; otherwise it
is said what is lost. A registry's credentials are those of docker login or podman login.

Exit status 1: a manifest is wrong or refused, or an image cannot be had; 2: the
command line is wrong.`,
		Example: `  garboard convert etcd.yaml --explain
  garboard convert etcd.yaml --output /
  kubectl get daemonset -n kube-system agent -o yaml | garboard convert - --explain
  garboard convert /etc/kubernetes/manifests --output out/machine --prune --json
  garboard convert web.yaml --output / --images /var/lib/garboard/images --pull
  garboard convert web.yaml --output / --images /var/lib/garboard/images --image localhost/web:1=oci-archive:web.tar
  garboard convert pods.yaml --objects /etc/kubernetes/objects --output out/units
  garboard convert recipes/services/*.yaml --to table
  systemctl show --all --timestamp=unix 'pod-*' | garboard convert etcd.yaml --status -
  garboard convert recipes/services/node-exporter.yaml --to table --status services.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name a manifest, such as etcd.yaml, a directory of them, or - for standard input")}
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	x := cmd.Flags()
	x.StringVar(&f.to, "to", string(pod.Systemd), "systemd: unit files; table: services of PID 1, as JSON")
	x.StringVarP(&f.output, "output", "o", "", "write below this directory instead of printing")
	x.BoolVar(&f.prune, "prune", false, "with --output: remove the units of all other pods there, and unpacked images that no unit has any more")
	x.BoolVar(&f.explain, "explain", false, "say field by field what happens, and write nothing")
	x.StringVar(&f.status, "status", "", "print the Pods with their status, read from this output of systemctl show --all --timestamp=unix, or with --to table from a node's /run/garboard/services.json (- is standard input)")
	x.BoolVar(&f.asJSON, "json", false, "print as JSON")
	x.StringVar(&f.options.ObjectsDir, "objects", "", "directory with configmaps/NAMESPACE/NAME/KEY and secrets/NAMESPACE/NAME/KEY")
	x.StringVar(&f.options.ImagesDir, "images", "", "absolute directory on the machine (below --output) with unpacked images: IMAGE/rootfs and IMAGE/config.json; default: programs are the machine's own")
	f.images.add(x)
	x.StringVar(&f.options.NodeName, "node-name", "", "name of the node; default: the machine's hostname when the pod starts")
	x.StringVar(&f.options.NodeIP, "node-ip", "", "address of the node, for status.hostIP and status.podIP")
	x.StringVar(&f.options.APIServer, "api-server", "", "HOST:PORT for KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT; default: they are not set")
	x.StringVar(&f.machine.ProbePath, "probe", "", "where the probe program is on the machine (default /usr/lib/garboard/probe)")
	x.IntVar(&f.machine.Version, "systemd-version", 257, "version of the machine's systemd, 252 or later")
	for _, dir := range []string{"output", "images", "objects"} {
		_ = cmd.MarkFlagDirname(dir)
	}
	_ = cmd.MarkFlagFilename("status")
	_ = cmd.RegisterFlagCompletionFunc("arch", cobra.FixedCompletions([]string{"amd64", "arm64"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions([]string{"systemd", "table"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *convertFlags) run(ctx context.Context, in io.Reader, out, diag io.Writer, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	docs, err := readManifests(in, args)
	if err != nil {
		return err
	}
	var made []unpack.Made
	if f.options.ImagesRoot = f.output; f.images.wanted() {
		// Everything that can be wrong is found before anything is fetched.
		f.options.ImagesLater = true
		if _, _, err := f.translate(docs, args); err != nil {
			return err
		}
		f.options.ImagesLater = false
		report, stop := f.global.reporter()
		made, err = f.unpackImages(ctx, docs, report)
		stop()
		if err != nil {
			return err
		}
	}
	if f.status != "" {
		f.options.ImagesLater = true // what a service of PID 1 runs is no part of its status
	}
	plans, findings, err := f.translate(docs, args)
	if f.explain {
		if perr := explain(out, findings, f.asJSON); perr != nil {
			return perr
		}
		return err
	}
	if err != nil {
		return err
	}
	switch {
	case f.status != "":
		return f.printStatus(in, out, plans)
	case f.options.Target == pod.Init:
		compiled, err := pod.Table(plans)
		if err != nil {
			return err
		}
		for _, x := range compiled.Files {
			fmt.Fprintf(diag, "garboard: the image gets %s (%#o, %d bytes)\n", x.Path, x.Mode, len(x.Content))
		}
		for _, s := range compiled.Services {
			if s.Root != nil {
				fmt.Fprintf(diag, "garboard: service %s: image %s: its layers, and what its configuration says, come in when a recipe that has it is built\n", s.Name, s.Root.Image)
			}
		}
		b, err := pod.JSON(&table.Table{Version: 1, Services: compiled.Services, Volumes: compiled.Volumes})
		if err != nil {
			return err
		}
		_, err = out.Write(b)
		return err
	}
	return f.units(ctx, out, diag, plans, made)
}

// fileFindings are the findings on one Pod.
type fileFindings struct {
	File     string        `json:"file"`
	Pod      string        `json:"pod"`
	Findings []pod.Finding `json:"findings"`
}

func (f *convertFlags) translate(docs []*manifest.Document, args []string) ([]*pod.Plan, []fileFindings, error) {
	f.options.Objects = docs
	var plans []*pod.Plan
	var all []fileFindings
	var errs []error
	errs = append(errs, pod.CheckObjects(docs))
	for _, d := range docs {
		if d.Pod == nil {
			continue
		}
		p, found, err := pod.Translate(d, f.options)
		plans, errs = append(plans, p), append(errs, err)
		all = append(all, fileFindings{File: d.File, Pod: p.Namespace + "/" + p.Name, Findings: found})
	}
	if len(plans) == 0 {
		return nil, nil, errors.Join(errors.Join(errs...), fmt.Errorf("%s: no document of kind Pod", strings.Join(args, ", ")))
	}
	pod.ResolveRoles(plans)
	return plans, all, errors.Join(errs...)
}

// maxValue is how much of a value explain shows.
const maxValue = 48

func explain(w io.Writer, all []fileFindings, asJSON bool) error {
	if asJSON {
		return writeJSON(w, all)
	}
	for _, f := range all {
		fmt.Fprintf(w, "%s: pod %s\n", f.File, f.Pod)
		for _, x := range f.Findings {
			v := []rune(x.Value)
			if len(v) > maxValue {
				v = append(v[:maxValue-1], '…')
			}
			sep := ": "
			if len(v) == 0 {
				sep = ""
			}
			fmt.Fprintf(w, "%5d  %-9s  %s%s%s\n                  %s\n", x.Line, x.Verdict, x.Field, sep, string(v), x.Text)
		}
	}
	return nil
}

// changed is what convert did to one file, or to the directory of an image.
type changed struct {
	systemd.Change
	Image  string   `json:"image,omitempty"`
	Digest string   `json:"digest,omitempty"`
	Lost   []string `json:"lost,omitempty"` // what of the image could not be written down
}

func (f *convertFlags) write(ctx context.Context, plans []*pod.Plan, files []pod.File, made []unpack.Made) ([]changed, error) {
	all := []changed{}
	onMachine := func(p string) string {
		return "/" + strings.TrimPrefix(strings.TrimPrefix(p, filepath.Clean(f.output)), "/")
	}
	for _, m := range made {
		if !m.Unchanged {
			all = append(all, changed{systemd.Change{Path: onMachine(m.Path)}, m.Name, m.Digest, m.Lost})
		}
	}
	changes, err := systemd.Write(f.output, plans, files, f.prune)
	for _, c := range changes {
		all = append(all, changed{Change: c})
	}
	if err == nil && f.prune {
		var removed []string
		removed, err = f.pruneImages(ctx)
		for _, p := range removed {
			all = append(all, changed{Change: systemd.Change{Path: onMachine(p), Removed: true}})
		}
	}
	return all, err
}

func (f *convertFlags) units(ctx context.Context, out, diag io.Writer, plans []*pod.Plan, made []unpack.Made) error {
	var files []pod.File
	for _, p := range plans {
		u, err := systemd.Units(p, f.machine)
		if err != nil {
			return err
		}
		files = append(files, u...)
	}
	if f.output != "" {
		changes, err := f.write(ctx, plans, files, made)
		if f.asJSON {
			return errors.Join(err, writeJSON(out, changes))
		}
		for _, c := range changes {
			verb := "written"
			if c.Removed {
				verb = "removed"
			}
			fmt.Fprintf(diag, "%s %s\n", verb, c.Path)
			for _, l := range c.Lost {
				fmt.Fprintf(diag, "garboard: image %s: %s\n", c.Image, l)
			}
		}
		return err
	}
	if f.asJSON {
		type printed struct {
			Path    string `json:"path"`
			Mode    string `json:"mode"`
			Secret  bool   `json:"secret,omitempty"`
			Content string `json:"content,omitempty"`
		}
		list := []printed{}
		for _, x := range files {
			p := printed{Path: x.Path, Mode: fmt.Sprintf("%#o", x.Mode), Secret: x.Secret}
			if !x.Secret {
				p.Content = string(x.Content)
			}
			list = append(list, p)
		}
		return writeJSON(out, list)
	}
	for i, x := range files {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if x.Secret {
			fmt.Fprintf(out, "# %s (%#o, %d bytes, secret: not shown)\n", x.Path, x.Mode, len(x.Content))
			continue
		}
		fmt.Fprintf(out, "# %s\n%s", x.Path, x.Content)
		if n := len(x.Content); n > 0 && x.Content[n-1] != '\n' {
			fmt.Fprintln(out)
		}
	}
	return nil
}

func (f *convertFlags) printStatus(in io.Reader, out io.Writer, plans []*pod.Plan) error {
	if f.status != "-" {
		file, err := os.Open(f.status)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	show, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var list []any
	for _, p := range plans {
		read := systemd.Status
		if f.options.Target == pod.Init {
			read = pod.Status
		}
		s, err := read(p, strings.NewReader(string(show)))
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	if f.asJSON {
		return writeJSON(out, list)
	}
	for i, s := range list {
		b, err := yaml.Marshal(s)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(out, "---")
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return nil
}
