package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"garboard.local/builder"
	"garboard.local/builder/component"
	"garboard.local/builder/recipe"
	"garboard.local/builder/source/oci/ocitest"
)

// foreignPod runs an image that the build has only in the form in which others
// give theirs away.
const foreignPod = `apiVersion: v1
kind: Pod
metadata: {name: foreign, namespace: default}
spec:
  terminationGracePeriodSeconds: 5
  containers:
    - name: foreign
      image: registry.example/team/hello:2
      imagePullPolicy: Never
`

// packHello makes an OCI layout of the program images/hello for both architectures
// in dir/hello, with a compressed layer and an entrypoint as others make them, and
// an overlay with a pod of it in dir/overlay.
func packHello(ctx context.Context, o builder.Options, dir string) error {
	var images []v1.Image
	for _, arch := range recipe.Arches {
		own, err := component.Own(ctx, component.Options{Store: o.Store, Progress: o.Progress, RepoRoot: o.Root, GoVersion: goVersion(o.Lock)}, arch,
			map[string]string{"hello": "./images/hello"})
		if err != nil {
			return err
		}
		program, err := os.ReadFile(own["hello"].Path)
		if err != nil {
			return err
		}
		img, err := mutate.Config(ocitest.Image(arch, ocitest.Programs(map[string][]byte{"app/hello": program})),
			v1.Config{Entrypoint: []string{"/app/hello"}, User: "65534:65534", WorkingDir: "/app"})
		if err != nil {
			return err
		}
		images = append(images, img)
	}
	manifests := filepath.Join(dir, "overlay/etc/kubernetes/manifests")
	if err := os.MkdirAll(manifests, 0o755); err != nil {
		return err
	}
	return errors.Join(
		ocitest.Layout(filepath.Join(dir, "hello"), ocitest.Index(images...)),
		os.WriteFile(filepath.Join(manifests, "foreign.yaml"), []byte(foreignPod), 0o644))
}
