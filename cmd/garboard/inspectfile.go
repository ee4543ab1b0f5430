package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"garboard.local/builder/inspect"
	"garboard.local/builder/report"
	"garboard.local/builder/store"
)

// inspectFile shows what is in a file.
func inspectFile(ctx context.Context, w io.Writer, file string, asJSON bool, depth int) error {
	n, err := inspect.Path(ctx, file, inspect.Options{})
	if err != nil {
		return err
	}
	about, err := annotate(n, file)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(w, n)
	}
	if about != "" {
		fmt.Fprintln(w, about)
	}
	printTree(w, n, "", "", depth)
	return nil
}

// annotate adds what the manifest beside a file says, if the file is the one
// that was built with it, and tells which of both is so.
func annotate(n *inspect.Node, file string) (string, error) {
	dir := filepath.Dir(file)
	m, err := report.ReadManifest(dir)
	if err != nil {
		return "no manifest beside it: where the files come from is not known", nil
	}
	sums, err := report.ReadSums(dir)
	if err != nil {
		return "", err
	}
	sum, err := store.HashFile(file)
	if err != nil {
		return "", err
	}
	for _, s := range sums {
		if s.Name == filepath.Base(file) && s.SHA256 == sum {
			inspect.Annotate(n, m)
			return fmt.Sprintf("%s %s, as built: its sha256 is that in %s", m.Recipe, m.Arch, report.SumsName), nil
		}
	}
	return fmt.Sprintf("not the file that %s lists: where the files come from is not known", filepath.Join(dir, report.SumsName)), nil
}

// total is the bytes of all files below a directory.
func total(n *inspect.Node) int64 {
	if n.Kind != inspect.Dir {
		return n.Size
	}
	var sum int64
	for _, c := range n.Children {
		sum += total(c)
	}
	return sum
}

func printTree(w io.Writer, n *inspect.Node, lead, next string, depth int) {
	line := n.Name
	if n.Kind == inspect.Dir {
		line += "/"
	}
	if n.Link != "" {
		line += " -> " + n.Link
	}
	for _, s := range []string{n.Format, n.Note} {
		if s != "" {
			line += " (" + s + ")"
		}
	}
	if n.Origin != "" || n.Reason != "" {
		line += "  [" + strings.Trim(n.Origin+": "+n.Reason, ": ") + "]"
	}
	if n.Text != "" {
		line += "  " + fmt.Sprintf("%q", strings.TrimRight(n.Text, "\x00\n"))
	}
	fmt.Fprintf(w, "%12d  %s%s\n", total(n), lead, line)
	if depth == 1 {
		return
	}
	for i, c := range n.Children {
		branch, below := "├── ", "│   "
		if i == len(n.Children)-1 {
			branch, below = "└── ", "    "
		}
		printTree(w, c, next+branch, next+below, depth-1)
	}
}
