package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"garboard.local/builder"
	"garboard.local/builder/component"
	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/oci/ocitest"
)

// ablePod runs the services' image under the container runtime: its program has a
// capability that its file has.
const ablePod = `apiVersion: v1
kind: Pod
metadata: {name: able, namespace: default}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 5
  containers:
    - name: able
      image: registry.example/team/agent:1
      imagePullPolicy: Never
      args: [rooted, able]
`

// netBind is cap_net_bind_service=ep as setcap(8) writes it.
const netBind = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// agentRecipe writes what TestVMAgent boots: recipes/test-agent.yaml with services that
// have an image of others, as one that the test makes of Debian's packages is.
func agentRecipe(ctx context.Context, o builder.Options, output string) (file string, err error) {
	dir := filepath.Join(output, "agent-image")
	var images []v1.Image
	for _, arch := range recipe.Arches {
		img, err := agentImage(ctx, o, arch)
		if err != nil {
			return "", fmt.Errorf("image of a service for %s: %w", arch, err)
		}
		images = append(images, img)
	}
	if err := ocitest.Layout(filepath.Join(dir, "layout"), ocitest.Index(images...)); err != nil {
		return "", err
	}
	root, err := filepath.Rel(dir, o.Root)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "recipe.yaml")
	text := fmt.Sprintf(`# Written by garboard test node.
extends: %[1]s/recipes/test-agent.yaml
name: test-agent
images:
  - {name: registry.example/team/agent:1, oci: ./layout, reason: services have it for their root directory}
overlays:
  - {path: overlay, reason: pod of that image}
services:
  - %[1]s/qemu/testdata/services/rooted.yaml
`, filepath.ToSlash(root))
	manifests := filepath.Join(dir, "overlay/etc/kubernetes/manifests")
	return file, errors.Join(os.MkdirAll(manifests, 0o755),
		os.WriteFile(filepath.Join(manifests, "able.yaml"), []byte(ablePod), 0o644),
		os.WriteFile(file, []byte(text), 0o644))
}

// agentImage has a distribution's files below, with the links that those have, and a
// program with its user above.
func agentImage(ctx context.Context, o builder.Options, arch string) (v1.Image, error) {
	debs, err := o.Lock.ToolClosure(arch, systemdTools)
	if err != nil {
		return nil, err
	}
	base, err := builder.FromPackages(ctx, o, arch, debs, []recipe.Package{{Name: "mount", Reason: "a program with libraries", Files: []string{"/usr/bin/mount"}}})
	if err != nil {
		return nil, err
	}
	own, err := component.Own(ctx, component.Options{Store: o.Store, Progress: o.Progress, RepoRoot: o.Root, GoVersion: goVersion(o.Lock)}, arch,
		map[string]string{"tester": "./images/tester"})
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(own["tester"].Path)
	if err != nil {
		return nil, err
	}
	const passwd = "root:x:0:0:root:/root:/bin/sh\n"
	for _, e := range []rootfs.Entry{
		rootfs.FromBytes("/etc/passwd", 0o644, []byte(passwd), "", "r"),
		rootfs.FromBytes("/etc/mark", 0o644, []byte("of the lower layer"), "", "r"),
		{Path: "/usr/bin/rolled", Kind: rootfs.Symlink, Mode: 0o777, Link: "/etc/alternatives/rolled", Reason: "as Debian has its alternatives"},
		{Path: "/etc/alternatives/rolled", Kind: rootfs.Symlink, Mode: 0o777, Link: "/usr/bin/mount", Reason: "the same"},
		{Path: "/etc/alternatives/gone", Kind: rootfs.Symlink, Mode: 0o777, Link: "/usr/bin/not-there", Reason: "leads nowhere, as some do"},
		{Path: "/var/run", Kind: rootfs.Symlink, Mode: 0o777, Link: "/run", Reason: "as everywhere"},
	} {
		if err := base.Add(e); err != nil {
			return nil, err
		}
	}
	var lower bytes.Buffer
	if err := base.WriteTar(&lower, o.Lock.Time); err != nil {
		return nil, err
	}
	able := ocitest.File("usr/local/bin/agent", string(program))
	able.Mode, able.PAXRecords = 0o755, map[string]string{"SCHILY.xattr.security.capability": netBind}
	home := ocitest.Dir("srv/app/")
	home.Mode, home.Uid, home.Gid = 0o700, 4711, 4712
	upper := ocitest.Layer(able, home,
		ocitest.File("etc/passwd", passwd+"app:x:4711:4712:an agent:/srv/app:/bin/false\n"),
		ocitest.File("etc/group", "root:x:0:\nwheel:x:10:root,app\napp:x:4712:\n"),
		ocitest.File("etc/mark", "of the upper layer"),
		ocitest.File("etc/resolv.conf", "# of whoever made the image\n"))
	return mutate.Config(ocitest.Image(arch, lower.Bytes(), upper), v1.Config{
		Entrypoint: []string{"agent"}, Cmd: []string{"rooted", "plain"}, User: "app", WorkingDir: "/srv/app", StopSignal: "SIGQUIT",
		Env: []string{"PATH=/usr/local/bin:/usr/bin", "APP=of the image", "OWN=of the image"}, Volumes: map[string]struct{}{"/srv/app/data": {}},
	})
}
