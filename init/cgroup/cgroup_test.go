package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	p := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSetup(t *testing.T) {
	root := t.TempDir()
	write(t, root, "cgroup.controllers", "cpuset cpu io memory pids\n")
	write(t, root, "garboard/cgroup.controllers", "cpuset cpu io memory pids\n")
	if err := (Tree{root}).Setup(1, []Group{{"crio", Share{39, 96 << 20}}, {"kubelet", Share{}}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"cgroup.subtree_control":          "+cpuset +cpu +io +memory +pids",
		"garboard/cgroup.subtree_control": "+cpuset +cpu +io +memory +pids",
		"garboard/init/cgroup.procs":      "1",
		"garboard/init/memory.min":        "33554432",
		"garboard/crio/cpu.weight":        "39",
		"garboard/crio/memory.min":        "100663296",
		"garboard/cpu.weight":             "140",
		"garboard/memory.min":             "134217728",
	} {
		if got := read(t, root, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, g := range []string{"garboard/crio", "garboard/kubelet"} {
		if st, err := os.Stat(filepath.Join(root, g)); err != nil || !st.IsDir() {
			t.Errorf("%s was not made: %v", g, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "garboard/kubelet/memory.min")); err == nil {
		t.Error("a share that nobody gave was set")
	}
}

func TestProcsAndPopulated(t *testing.T) {
	root := t.TempDir()
	tree := Tree{root}
	if tree.Populated(Pods) || tree.Procs(Pods) != nil {
		t.Error("a missing group holds processes")
	}
	write(t, root, "kubepods/cgroup.events", "populated 1\nfrozen 0\n")
	write(t, root, "kubepods/cgroup.procs", "")
	write(t, root, "kubepods/pod1/c/cgroup.procs", "17\n0\n1\n19\n")
	if got := tree.Procs(Pods); !slices.Equal(got, []int{17, 19}) {
		t.Errorf("got %v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if tree.WaitEmpty(ctx, Pods) {
		t.Error("a populated group counted as empty")
	}
	write(t, root, "kubepods/cgroup.events", "populated 0\nfrozen 0\n")
	if !tree.WaitEmpty(t.Context(), Pods) {
		t.Error("an empty group counted as populated")
	}
}

func TestLimit(t *testing.T) {
	root := t.TempDir()
	write(t, root, "garboard/a/cgroup.procs", "")
	write(t, root, "garboard/b/cgroup.procs", "")
	for name, l := range map[string][2]int64{"a": {1 << 20, 1500}, "b": {0, 0}} {
		if err := (Tree{root}).Limit(name, l[0], l[1]); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"garboard/a/memory.max": "1048576", "garboard/a/memory.oom.group": "1", "garboard/a/cpu.max": "150000 100000"} {
		if got := read(t, root, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if files, err := os.ReadDir(filepath.Join(root, "garboard/b")); err != nil || len(files) != 1 {
		t.Errorf("limits that nobody gave: %v %v", files, err)
	}
	if err := (Tree{root}).Limit("absent", 1, 0); err == nil {
		t.Error("the limit of a group that is not there is no error")
	}
}
