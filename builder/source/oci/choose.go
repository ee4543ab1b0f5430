package oci

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Choice says which image is meant where there are several.
type Choice struct {
	Arch string // GOARCH
	// Name tells images for one architecture apart. It is the full name that the image
	// was saved under, or, in a layout, all of its annotation or the tag in it.
	Name string
	// Must means that a single image must have the name too.
	Must bool
}

// candidate is an image for the wanted architecture.
type candidate struct {
	img              v1.Image // nil where it cannot be opened for want of a name
	sum              string   // what stands for it
	manifest, config []byte
	names            []string // full ones
	refs             []string // full ones, or tags
}

// Grades of how well a name fits.
const (
	unfit = iota
	byTag
	byMeaning // nginx is docker.io/library/nginx:latest
	byLetter
)

func (c *candidate) grade(wanted string) int {
	switch {
	case slices.Contains(c.names, wanted), slices.Contains(c.refs, wanted):
		return byLetter
	case slices.ContainsFunc(slices.Concat(c.names, c.refs), func(n string) bool { return meaning(n) != "" && meaning(n) == meaning(wanted) }):
		return byMeaning
	case len(c.names) == 0 && slices.Contains(c.refs, tagOf(wanted)):
		return byTag
	}
	return unfit
}

// called is what an image is called in messages.
func (c *candidate) called() string {
	if all := slices.Concat(c.names, c.refs); len(all) > 0 {
		return strings.Join(unique(all), " or ")
	}
	return c.sum
}

// tagOf is the tag that a name has, or nothing.
func tagOf(n string) string {
	_, tag, _ := strings.Cut(n[strings.LastIndexByte(n, '/')+1:], ":")
	return tag
}

// meaning is a name with everything that is left out of short ones; "" for a word that
// may be a tag, and for what is no name.
func meaning(n string) string {
	if !strings.ContainsAny(n, "/:") {
		return ""
	}
	t, err := name.NewTag(n)
	if err != nil {
		return ""
	}
	return t.Name()
}

// choose takes the image that is meant. others are the platforms of images for other
// architectures.
func choose(found []candidate, others []string, w Choice) (*candidate, error) {
	found = distinct(found)
	switch {
	case len(found) == 0 && len(others) > 0:
		return nil, &otherArch{w.Arch, unique(others)}
	case len(found) == 0:
		return nil, errors.New("it holds no image")
	case len(found) == 1 && !w.Must:
		return opened(&found[0])
	}
	var called []string
	best := unfit
	for i := range found {
		called, best = append(called, found[i].called()), max(best, found[i].grade(w.Name))
	}
	fit := slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return best == unfit || c.grade(w.Name) < best })
	list := strings.Join(called, ", ")
	switch {
	case len(fit) == 1:
		return opened(&fit[0])
	case len(fit) > 1:
		return nil, fmt.Errorf("it holds %d images for linux/%s that %s can mean (%s); keep one", len(fit), w.Arch, w.Name, list)
	case w.Must:
		return nil, fmt.Errorf("it holds no image for linux/%s that is named %q; named are %s: ask for one of those", w.Arch, w.Name, list)
	case w.Name == "":
		return nil, &several{fmt.Sprintf("it holds %d images for linux/%s: %s", len(found), w.Arch, list)}
	}
	return nil, &several{fmt.Sprintf("it holds %d images for linux/%s and none is named %s, but %s", len(found), w.Arch, w.Name, list)}
}

func opened(c *candidate) (*candidate, error) {
	if c.img == nil {
		return nil, fmt.Errorf("its image %s has no name, by which alone one of several can be taken; save it alone, or under a name", c.sum)
	}
	return c, nil
}

// distinct puts an image that is there under several names together.
func distinct(all []candidate) (out []candidate) {
	for _, c := range all {
		i := slices.IndexFunc(out, func(o candidate) bool { return o.sum == c.sum })
		if i < 0 {
			out = append(out, c)
			continue
		}
		out[i].names, out[i].refs = slices.Concat(out[i].names, c.names), slices.Concat(out[i].refs, c.refs)
	}
	return out
}

// unique leaves out what came before.
func unique(list []string) (out []string) {
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// otherArch says that an image is there, for other architectures alone.
type otherArch struct {
	arch string
	has  []string
}

func (e *otherArch) Error() string {
	return fmt.Sprintf("it has no image for linux/%s, only for %s", e.arch, strings.Join(e.has, ", "))
}

// several says that it takes a choice, which depends on the place.
type several struct{ text string }

func (e *several) Error() string { return e.text }
