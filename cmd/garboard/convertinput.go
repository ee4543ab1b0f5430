package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"garboard.local/pod"
	"garboard.local/pod/manifest"
	"garboard.local/pod/seccomp"
)

// check looks at the command line: flags that do not go together, and values that
// would be found to be wrong only in what is written.
func (f *convertFlags) check(args []string) error {
	switch f.to {
	case string(pod.Systemd):
		f.options.Target = pod.Systemd
	case "table", string(pod.Init):
		f.options.Target = pod.Init
	default:
		return usageError{fmt.Errorf("--to %q: known are systemd and table", f.to)}
	}
	table := f.options.Target == pod.Init
	o := &f.options
	for _, rule := range []struct {
		broken bool
		say    string
	}{
		{table && f.output != "", "--output goes with --to systemd; the table is printed"},
		{f.prune && f.output == "", "--prune goes with --output"},
		{f.explain && f.output != "", "--explain writes nothing; leave --output out"},
		{f.status != "" && f.output != "", "--status writes nothing; leave --output out"},
		{f.explain && f.status != "", "--explain and --status each print something else; leave one of them out"},
		{f.status == "-" && slices.Contains(args, "-"), "standard input is either the manifests or the status; name a file for one of them"},
		{slices.Index(args, "-") != lastIndex(args, "-"), "standard input is read once; name - once"},
		{table && o.ImagesDir != "", "--images goes with --to systemd: the programs of PID 1's services are in the root image"},
		{o.ImagesDir != "" && !filepath.IsAbs(o.ImagesDir), fmt.Sprintf("--images %q: units name the directory, so it has to be absolute", o.ImagesDir)},
		{strings.ContainsAny(o.ImagesDir, ":,\\"), fmt.Sprintf("--images %q: the path of an overlay's directory has no colon, comma or backslash", o.ImagesDir)},
		{f.machine.ProbePath != "" && !filepath.IsAbs(f.machine.ProbePath), fmt.Sprintf("--probe %q: units name the program, so its path has to be absolute", f.machine.ProbePath)},
		{o.NodeName != "" && len(validation.IsDNS1123Subdomain(o.NodeName)) > 0, fmt.Sprintf("--node-name %q is not the name of a node: small letters, digits, - and ., 253 at most", o.NodeName)},
	} {
		if rule.broken {
			return usageError{errors.New(rule.say)}
		}
	}
	if !slices.Contains(seccomp.Arches(), f.images.arch) {
		return usageError{fmt.Errorf("--arch %q: known are %s", f.images.arch, strings.Join(seccomp.Arches(), " and "))}
	}
	o.Node.Arch = f.images.arch
	if _, err := netip.ParseAddr(o.NodeIP); o.NodeIP != "" && err != nil {
		return usageError{fmt.Errorf("--node-ip %q is not an address", o.NodeIP)}
	}
	if host, port, err := net.SplitHostPort(o.APIServer); o.APIServer != "" && (err != nil || host == "" || port == "") {
		return usageError{fmt.Errorf("--api-server %q is not HOST:PORT", o.APIServer)}
	}
	if fi, err := os.Stat(o.ObjectsDir); o.ObjectsDir != "" && (err != nil || !fi.IsDir()) {
		return usageError{fmt.Errorf("--objects %s is no directory", o.ObjectsDir)}
	}
	return f.checkImages()
}

func lastIndex(list []string, s string) int {
	for i, x := range slices.Backward(list) {
		if x == s {
			return i
		}
	}
	return -1
}

// readManifests reads every document of files, directories and standard input.
func readManifests(in io.Reader, args []string) ([]*manifest.Document, error) {
	var docs []*manifest.Document
	var errs []error
	for _, a := range args {
		d, err := readManifest(in, a)
		docs, errs = append(docs, d...), append(errs, err)
	}
	return docs, errors.Join(errs...)
}

func readManifest(in io.Reader, name string) ([]*manifest.Document, error) {
	if name == "-" {
		b, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return manifest.Read("standard input", b)
	}
	fi, err := os.Stat(name)
	if err != nil || !fi.IsDir() {
		return manifest.ReadFile(name)
	}
	entries, err := os.ReadDir(name) // sorted by name
	if err != nil {
		return nil, err
	}
	var docs []*manifest.Document
	var errs []error
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || ext != ".yaml" && ext != ".yml" && ext != ".json" {
			continue // as a kubelet's directory of static pods
		}
		d, err := manifest.ReadFile(filepath.Join(name, e.Name()))
		docs, errs = append(docs, d...), append(errs, err)
	}
	if len(docs) == 0 && errors.Join(errs...) == nil {
		return nil, fmt.Errorf("%s: no *.yaml, *.yml or *.json in this directory", name)
	}
	return docs, errors.Join(errs...)
}
