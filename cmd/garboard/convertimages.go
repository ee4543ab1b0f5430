package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"garboard.local/builder/preload"
	"garboard.local/builder/progress"
	"garboard.local/builder/source/oci"
	"garboard.local/builder/unpack"
	"garboard.local/pod"
	"garboard.local/pod/manifest"
	"garboard.local/pod/systemd"
)

// imageFlags say which container images are unpacked, and from where they come.
type imageFlags struct {
	places []string // NAME=PLACE
	pull   bool
	arch   string
	limit  string
}

func (f *imageFlags) add(x *pflag.FlagSet) {
	x.StringArrayVar(&f.places, "image", nil, "with --images and --output: unpack the image that the manifests call NAME from PLACE, as NAME=PLACE (repeatable); PLACE is "+oci.Transports+"; of several images there, without a name in PLACE, the one that is called NAME is taken")
	x.BoolVar(&f.pull, "pull", false, "with --images and --output: fetch images from their registries by each container's imagePullPolicy, and unpack them")
	x.StringVar(&f.arch, "arch", runtime.GOARCH, "architecture of the machine, amd64 or arm64: of the images of --image and --pull, and of the seccomp programs of --to table")
	x.StringVar(&f.limit, "image-limit", "16Gi", "what one image may unpack to at most")
}

func (f *imageFlags) wanted() bool { return f.pull || len(f.places) > 0 }

// checkImages looks at the flags that are about images.
func (f *convertFlags) checkImages() error {
	if !f.images.wanted() {
		return nil
	}
	switch {
	case f.options.Target != pod.Systemd || f.explain || f.status != "":
		return usageError{errors.New("--image and --pull unpack images, which goes with --to systemd and --output alone")}
	case f.options.ImagesDir == "":
		return usageError{errors.New("--image and --pull need --images, the directory on the machine where images are unpacked, such as /var/lib/garboard/images")}
	case f.output == "":
		return usageError{errors.New(`--image and --pull need --output, below which the machine's files are written ("/" is this machine)`)}
	}
	if q, err := resource.ParseQuantity(f.images.limit); err != nil || q.Sign() <= 0 {
		return usageError{fmt.Errorf("--image-limit %q is not a size such as 20Gi", f.images.limit)}
	}
	for _, p := range f.images.places {
		if name, place, ok := strings.Cut(p, "="); !ok || name == "" || place == "" {
			return usageError{fmt.Errorf("--image %q: write it as NAME=PLACE; PLACE is %s", p, oci.Transports)}
		}
	}
	return nil
}

// need is one image that containers have.
type need struct {
	name   string
	place  string
	policy corev1.PullPolicy // the most that a container asks for
}

// needs are the images of all pods, with where they come from.
func (f *imageFlags) needs(docs []*manifest.Document) ([]need, error) {
	var out []need
	var names []string
	for _, d := range docs {
		if d.Pod == nil {
			continue
		}
		for _, c := range slices.Concat(d.Pod.Spec.InitContainers, d.Pod.Spec.Containers) {
			policy := pullPolicy(c)
			i := slices.IndexFunc(out, func(n need) bool { return n.name == c.Image })
			if i < 0 {
				out, names = append(out, need{name: c.Image, policy: policy}), append(names, c.Image)
			} else if policy == corev1.PullAlways || out[i].policy == corev1.PullNever {
				out[i].policy = policy
			}
		}
	}
	for _, p := range f.places {
		name, place, _ := strings.Cut(p, "=")
		// A name may have no =, a place may; digests and tags have none either.
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return nil, usageError{fmt.Errorf("--image %s: no container has the image %q; they have %s", p, name, strings.Join(names, ", "))}
		case out[i].place != "":
			return nil, usageError{fmt.Errorf("--image %s: a place for %s was given already", p, name)}
		}
		out[i].place = place
	}
	return out, nil
}

// pullPolicy is a container's, with the API server's default.
func pullPolicy(c corev1.Container) corev1.PullPolicy {
	_, tag, _ := strings.Cut(c.Image[strings.LastIndexByte(c.Image, '/')+1:], ":")
	switch {
	case c.ImagePullPolicy != "":
		return c.ImagePullPolicy
	case !strings.Contains(c.Image, "@") && (tag == "" || tag == "latest"):
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// unpackImages brings what the manifests need into the directory of images.
func (f *convertFlags) unpackImages(ctx context.Context, docs []*manifest.Document, report progress.Reporter) (made []unpack.Made, err error) {
	list, err := f.images.needs(docs)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(f.output, f.options.ImagesDir)
	dir, err := unpack.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	limit, err := resource.ParseQuantity(f.images.limit)
	if err != nil {
		return nil, err
	}
	dir.Bytes, dir.Progress = limit.Value(), report
	for _, n := range list {
		_, serr := os.Stat(filepath.Join(at, pod.ImageDir(n.name)))
		if n.place == "" {
			if serr == nil && n.policy != corev1.PullAlways || !f.images.pull {
				continue // the translation says what is missing
			}
			if n.policy == corev1.PullNever {
				return made, fmt.Errorf("image %s: its containers have imagePullPolicy Never, and it is not in %s; give it with --image %s=PLACE", n.name, at, n.name)
			}
			n.place = "docker://" + n.name
		}
		m, err := f.unpackImage(ctx, dir, n)
		if err != nil {
			return made, err
		}
		made = append(made, m)
	}
	return made, nil
}

func (f *convertFlags) unpackImage(ctx context.Context, dir *unpack.Dir, n need) (unpack.Made, error) {
	temp, err := dir.Temp()
	if err != nil {
		return unpack.Made{}, err
	}
	img, err := oci.Find(ctx, n.place, oci.Choice{Arch: f.images.arch, Name: n.name}, temp)
	if err != nil && strings.HasPrefix(n.place, "docker:") && ctx.Err() == nil {
		err = fmt.Errorf("%w; docker login gives credentials, and --image %s=PLACE another place", err, n.name)
	}
	if err != nil {
		return unpack.Made{}, err
	}
	made, err := dir.Add(ctx, pod.ImageDir(n.name), n.name, img)
	if over := new(preload.LimitError); errors.As(err, &over) {
		err = fmt.Errorf("%w; if that is right, --image-limit allows more", err)
	}
	return made, errors.Join(err, img.Close())
}

// pruneImages removes unpacked images that no container and no unit has any more.
func (f *convertFlags) pruneImages(ctx context.Context) (removed []string, err error) {
	at := filepath.Join(f.output, f.options.ImagesDir)
	if _, err := os.Stat(at); f.options.ImagesDir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	dir, err := unpack.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	var units []string
	for _, kind := range []string{"*.service", "*.mount"} {
		found, err := filepath.Glob(filepath.Join(f.output, systemd.UnitDir, kind))
		if err != nil {
			return nil, err
		}
		units = append(units, found...)
	}
	var all []byte
	for _, u := range units {
		b, err := os.ReadFile(u)
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
	}
	return dir.Prune(func(name string) bool { return bytes.Contains(all, []byte("/"+name+"/")) })
}
