package recipe

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Image is a container image that a node has from the start: one Go program of
// this repository, or an image of others.
type Image struct {
	// Name with which pods ask for it, complete with registry and tag: localhost/app:1.
	Name string `yaml:"name" json:"name"`
	// Program is a Go package directory, relative to the repository.
	Program string `yaml:"program,omitempty" json:"program,omitempty"`
	// OCI is an image of others in place of a program: a reference in a registry, or,
	// beginning with ./, ../ or /, an OCI layout (a directory or an archive of one) or
	// what docker save writes, relative to this file.
	OCI string `yaml:"oci,omitempty" json:"oci,omitempty"`
	// Entrypoint of a program's image; default: the program.
	Entrypoint []string `yaml:"entrypoint,omitempty" json:"entrypoint,omitempty"`
	// User of a program's image, as user[:group].
	User   string `yaml:"user,omitempty" json:"user,omitempty"`
	Reason string `yaml:"reason" json:"reason"`
}

func (m Image) check() error {
	switch {
	case m.Name == "" || m.Reason == "":
		return errors.New("name and reason are needed")
	case (m.Program == "") == (m.OCI == ""):
		return errors.New("it comes either from a program of this repository (program) or from an image of others (oci)")
	case m.OCI != "" && (m.User != "" || len(m.Entrypoint) > 0):
		return errors.New("an image of others (oci) brings its entrypoint and user itself; a pod can override both")
	case strings.ContainsAny(m.OCI, " \t\n\x00"):
		return fmt.Errorf("oci: %q holds white space", m.OCI)
	}
	return nil
}

// checkImages reports the first rule that the images of the root image and of the
// data partition break.
func (r *Recipe) checkImages() error {
	where := map[string]string{}
	for _, part := range []struct {
		field string
		list  []Image
	}{{"images", r.Images}, {"disk.images", r.Disk.Images}} {
		for i, m := range part.list {
			at := fmt.Sprintf("%s[%d] (%s)", part.field, i, m.Name)
			if err := m.check(); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			if other, twice := where[m.Name]; twice {
				return fmt.Errorf("%s: %s has that name already, and a node knows a name once: leave one out or give it another tag", at, other)
			}
			where[m.Name] = at
		}
	}
	return nil
}

// imagePaths joins the paths of local images with the directory of the recipe.
func imagePaths(dir string, list []Image) {
	for i, m := range list {
		if LocalOCI(m.OCI) && !filepath.IsAbs(m.OCI) {
			list[i].OCI = localOCI(filepath.Join(dir, m.OCI))
		}
	}
}

// imagesFor is the images as they apply to one architecture.
func imagesFor(list []Image, replace func(string) string) (out []Image) {
	for _, m := range list {
		m.Name, m.OCI = replace(m.Name), replace(m.OCI)
		out = append(out, m)
	}
	return out
}

// OCI are the references of a recipe to images in registries, for the lock.
func (r *Recipe) OCI() (refs []string) {
	all := []string{r.Kernel.OCI}
	for _, list := range [][]Image{r.Images, r.Disk.Images} {
		for _, m := range list {
			all = append(all, m.OCI)
		}
	}
	for _, ref := range all {
		if ref != "" && !LocalOCI(ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}
