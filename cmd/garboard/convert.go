package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"garboard.local/init/table"
	"garboard.local/pod"
	"garboard.local/pod/manifest"
	"garboard.local/pod/seccomp"
	"garboard.local/pod/systemd"
)

// convertFlags are what `garboard convert` is asked for.
type convertFlags struct {
	to, output, status     string
	explain, asJSON, prune bool
	options                pod.Options
	machine                systemd.Options
}

func convertCommand() *cobra.Command {
	f := &convertFlags{}
	cmd := &cobra.Command{
		Use:   "convert POD.yaml...",
		Short: "Turn Pod manifests into systemd units, or into services of PID 1",
		Long: `Convert reads Pod manifests (several documents in a file; - is standard input) and
writes what they mean as services of a machine. ConfigMap and Secret documents
beside the Pods are what their references are resolved from. What a field becomes is
in docs/pod-mapping.md; nothing is dropped silently, and a manifest with a field that
cannot be had is refused as a whole, with every reason.

Without --output the units are printed. With it they are written to
DIR/etc/systemd/system and their files to DIR/etc/garboard/pods; "/" is this machine.
Units that an earlier manifest of the same pod left there are removed. Then:

  systemctl daemon-reload
  systemctl enable --now pod-NAMESPACE-NAME.target

Exit status 1: a manifest is wrong or refused; 2: the command line is wrong.`,
		Example: `  garboard convert etcd.yaml --explain
  garboard convert etcd.yaml --output /
  garboard convert pods.yaml --to systemd --objects /etc/kubernetes/objects --output out/units
  garboard convert recipes/services/*.yaml --to table
  systemctl show --all --timestamp=unix 'pod-*' | garboard convert etcd.yaml --status -
  garboard convert recipes/services/node-exporter.yaml --to table --status services.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name a manifest, such as etcd.yaml, or - for standard input")}
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
	x.BoolVar(&f.prune, "prune", false, "with --output: remove the units of all other pods there")
	x.BoolVar(&f.explain, "explain", false, "say field by field what happens, and write nothing")
	x.StringVar(&f.status, "status", "", "print the Pods with their status, read from this output of systemctl show --all --timestamp=unix, or with --to table from a node's /run/garboard/services.json (- is standard input)")
	x.BoolVar(&f.asJSON, "json", false, "print as JSON")
	x.StringVar(&f.options.ObjectsDir, "objects", "", "directory with configmaps/NAMESPACE/NAME/KEY and secrets/NAMESPACE/NAME/KEY")
	x.StringVar(&f.options.ImagesDir, "images", "", "absolute directory with unpacked images: IMAGE/rootfs and IMAGE/config.json; default: programs are the machine's own")
	x.StringVar(&f.options.NodeName, "node-name", "", "name of the node; default: the machine's hostname when the pod starts")
	x.StringVar(&f.options.NodeIP, "node-ip", "", "address of the node, for status.hostIP and status.podIP")
	x.StringVar(&f.options.APIServer, "api-server", "", "HOST:PORT for KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT; default: they are not set")
	x.StringVar(&f.options.Node.Arch, "arch", "", "with --to table: architecture of the node, amd64 or arm64, for seccomp programs (default: this machine's)")
	x.StringVar(&f.machine.ProbePath, "probe", "", "where the probe program is on the machine (default /usr/lib/garboard/probe)")
	x.IntVar(&f.machine.Version, "systemd-version", 257, "version of the machine's systemd, 252 or later")
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions([]string{"systemd", "table"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *convertFlags) run(_ context.Context, in io.Reader, out, diag io.Writer, args []string) error {
	switch f.to {
	case string(pod.Systemd):
		f.options.Target = pod.Systemd
	case "table", string(pod.Init):
		f.options.Target = pod.Init
	default:
		return usageError{fmt.Errorf("--to %q: known are systemd and table", f.to)}
	}
	switch {
	case f.options.Target == pod.Init && f.output != "":
		return usageError{errors.New("--output goes with --to systemd; the table is printed")}
	case f.options.Node.Arch != "" && !slices.Contains(seccomp.Arches(), f.options.Node.Arch):
		return usageError{fmt.Errorf("--arch %q: known are %s", f.options.Node.Arch, strings.Join(seccomp.Arches(), " and "))}
	case f.prune && f.output == "":
		return usageError{errors.New("--prune goes with --output")}
	case f.options.ImagesDir != "" && !strings.HasPrefix(f.options.ImagesDir, "/"):
		return usageError{fmt.Errorf("--images %q: units name the directory, so it has to be absolute", f.options.ImagesDir)}
	}
	plans, findings, err := f.translate(in, args)
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
		b, err := pod.JSON(&table.Table{Version: 1, Services: compiled.Services, Volumes: compiled.Volumes})
		if err != nil {
			return err
		}
		_, err = out.Write(b)
		return err
	}
	return f.units(out, diag, plans)
}

// read reads every document of the files.
func readManifests(in io.Reader, args []string) ([]*manifest.Document, error) {
	var docs []*manifest.Document
	var errs []error
	for _, a := range args {
		var d []*manifest.Document
		var err error
		if a == "-" {
			var b []byte
			if b, err = io.ReadAll(in); err == nil {
				d, err = manifest.Read("standard input", b)
			}
		} else {
			d, err = manifest.ReadFile(a)
		}
		docs, errs = append(docs, d...), append(errs, err)
	}
	return docs, errors.Join(errs...)
}

// fileFindings are the findings on one Pod.
type fileFindings struct {
	File     string        `json:"file"`
	Pod      string        `json:"pod"`
	Findings []pod.Finding `json:"findings"`
}

func (f *convertFlags) translate(in io.Reader, args []string) ([]*pod.Plan, []fileFindings, error) {
	docs, err := readManifests(in, args)
	if err != nil {
		return nil, nil, err
	}
	f.options.Objects = docs
	var plans []*pod.Plan
	var all []fileFindings
	var errs []error
	seen := map[string]bool{}
	for _, d := range docs {
		if d.Pod == nil {
			continue
		}
		p, found, err := pod.Translate(d, f.options)
		if name := p.Namespace + "/" + p.Name; seen[name] {
			err = errors.Join(err, d.Errorf(d.LineOf("metadata.name"), "a second pod is called %s", name))
		} else {
			seen[name] = true
		}
		plans, errs = append(plans, p), append(errs, err)
		all = append(all, fileFindings{File: d.File, Pod: p.Namespace + "/" + p.Name, Findings: found})
	}
	if len(plans) == 0 {
		return nil, nil, fmt.Errorf("%s: no document of kind Pod", strings.Join(args, ", "))
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

func (f *convertFlags) units(out, diag io.Writer, plans []*pod.Plan) error {
	var files []pod.File
	for _, p := range plans {
		u, err := systemd.Units(p, f.machine)
		if err != nil {
			return err
		}
		files = append(files, u...)
	}
	if f.output != "" {
		changes, err := systemd.Write(f.output, plans, files, f.prune)
		if f.asJSON {
			return errors.Join(err, writeJSON(out, changes))
		}
		for _, c := range changes {
			verb := "written"
			if c.Removed {
				verb = "removed"
			}
			fmt.Fprintf(diag, "%s %s\n", verb, c.Path)
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
