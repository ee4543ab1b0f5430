package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// podPrefix begins the names of the pods that the test makes.
const podPrefix = "chaosload-"

// manifest is the static pod of image i.
func manifest(i int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s%d, namespace: default}
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - {name: load, image: %q, imagePullPolicy: Never}
`, podPrefix, i, ref(i))
}

func (g *guest) manifests() string { return filepath.Join(g.root, "etc/kubernetes/manifests") }

// makePod writes a manifest as one does whose file must be there after a power
// cut, and only then says so.
func (g *guest) makePod(i int) error {
	path := filepath.Join(g.manifests(), fmt.Sprintf("%s%d.yaml", podPrefix, i))
	tmp := filepath.Join(g.manifests(), fmt.Sprintf(".%s%d", podPrefix, i)) // the kubelet passes over it
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteString(manifest(i))
	if err := errors.Join(err, f.Sync(), f.Close(), os.Rename(tmp, path), g.syncManifests()); err != nil {
		return err
	}
	g.say("pod %s%d %s", podPrefix, i, ref(i))
	return nil
}

func (g *guest) removePod(i int) error {
	name := fmt.Sprintf("%s%d", podPrefix, i)
	g.say("unpod %s", name)
	return errors.Join(os.Remove(filepath.Join(g.manifests(), name+".yaml")), g.syncManifests())
}

func (g *guest) syncManifests() error {
	d, err := os.Open(g.manifests())
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// pods are the numbers of the pods that have a manifest, in order.
func (g *guest) pods() ([]int, error) {
	entries, err := os.ReadDir(g.manifests())
	var out []int
	for _, e := range entries {
		n, ok := strings.CutPrefix(e.Name(), podPrefix)
		if i, err := strconv.Atoi(strings.TrimSuffix(n, ".yaml")); ok && err == nil {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out, err
}

// settle waits until each pod has a running container, and says which have.
func (g *guest) settle(ctx context.Context) error {
	want, err := g.pods()
	if err != nil {
		return err
	}
	limit := time.Now().Add(2 * time.Minute)
	for {
		have, err := g.runtime.running(ctx)
		missing := 0
		for _, i := range want {
			if !running(have, i) {
				missing++
			}
		}
		if err == nil && missing == 0 || time.Now().After(limit) {
			for _, i := range want {
				if running(have, i) {
					g.say("running %s%d", podPrefix, i)
				} else {
					g.say("notrunning %s%d", podPrefix, i)
				}
			}
			return nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// running looks for the pod of image i; the kubelet appends the node's name.
func running(have map[string]bool, i int) bool {
	for name := range have {
		if strings.HasPrefix(name, fmt.Sprintf("%s%d-", podPrefix, i)) {
			return true
		}
	}
	return false
}
