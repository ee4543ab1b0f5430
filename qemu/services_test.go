package qemu

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/builder/recipe"
	"garboard.local/pod"
	"garboard.local/qemu/observed"
)

// The same pods as services of PID 1, compiled by a recipe into the table of a node's
// image, see and do what they did in the last run that was found right; what differs
// from a kubelet's pods is explained in docs/pod-observed.md.
func TestVMServices(t *testing.T) {
	eachArch(t, func(t *testing.T, arch string) { sameAgain(t, observedInit, underInit(t, arch)) })
}

func underInit(t *testing.T, arch string) []observed.Fact {
	plans := observedPlans(t, pod.Init, "")
	return runObserved(t, testMachine(t, "observed-init-"+arch), "init", func(r *observed.Report) map[string]*corev1.PodStatus {
		out := map[string]*corev1.PodStatus{}
		for _, p := range plans {
			s, err := pod.Status(p, strings.NewReader(r.Status)) // what garboard convert --status prints
			if err != nil {
				t.Fatal(err)
			}
			out[p.Name] = &s.Status
		}
		return out
	}, plans)
}

// refusedByInit are the pods that PID 1 does not take, with the reason.
func refusedByInit(t *testing.T) map[string]string {
	t.Helper()
	_, refused := translateObserved(t, pod.Init, "")
	return refused
}

// The recipe has PID 1 run every pod that can be had, and no other; in the place of
// the negative control its spoilt twin.
func TestRecipeRunsTheObservedPods(t *testing.T) {
	r, err := recipe.Load("../recipes/observed-init.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, s := range r.Services {
		if dir, file := filepath.Split(s); filepath.Base(dir) == "manifests" || file == controlPod+".yaml" {
			listed = append(listed, strings.TrimSuffix(file, ".yaml"))
		}
	}
	plans := map[string]bool{}
	for _, p := range observedPlans(t, pod.Init, "") {
		plans[p.Name] = true
	}
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(plans)); !slices.Equal(listed, want) {
		t.Errorf("recipes/observed-init.yaml has PID 1 run %q; it takes %q", listed, want)
	}
}
