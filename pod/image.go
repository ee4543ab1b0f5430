package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/user"
	corev1 "k8s.io/api/core/v1"

	"garboard.local/init/table"
)

// imageConfig is the part of an OCI image's configuration that says how it is run.
type imageConfig struct {
	Config struct {
		User, WorkingDir, StopSignal string
		Env, Entrypoint, Cmd         []string
	} `json:"config"`
	later bool  // it comes when the image is unpacked, or when a recipe is built
	files fs.FS // what a container sees, of an image in the root image; else nil
}

// Image is a container image in the root image.
type Image struct {
	Config []byte   // OCI image-spec, config.md
	Layers []string // its directories there, the topmost first
	Files  fs.FS    // what a container sees
}

// ImageDir is the name of an image's directory below --images: every byte that
// is not a letter, a digit or one of ._- is a plus sign and its number (% and : have meanings in units).
func ImageDir(image string) string {
	var b strings.Builder
	for i := range len(image) {
		c := image[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "+%02x", c)
		}
	}
	return b.String()
}

// Images are the images of a document's containers, each once, in their order.
func Images(p *corev1.Pod) []string {
	var out []string
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if c.Image != "" && !slices.Contains(out, c.Image) {
			out = append(out, c.Image)
		}
	}
	return out
}

// image finds the container's unpacked image.
func (t *translation) image(at string, c *corev1.Container, s *Service) *imageConfig {
	if t.Target == Init {
		return t.rootImage(at, c, s)
	}
	if t.ImagesDir == "" {
		return nil
	}
	if c.Image == "" {
		t.refuse(at+".image", "is missing; with --images every container has one")
		return &imageConfig{later: true}
	}
	if t.ImagesLater {
		return &imageConfig{later: true}
	}
	dir := filepath.Join(t.ImagesDir, ImageDir(c.Image))
	// The unit names what the image is now: one that is unpacked later is another image.
	if to, err := os.Readlink(filepath.Join(t.ImagesRoot, dir)); err == nil && filepath.Base(to) == to {
		dir = filepath.Join(t.ImagesDir, to)
	}
	s.Root = filepath.Join(dir, "rootfs")
	b, err := os.ReadFile(filepath.Join(t.ImagesRoot, dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) && len(c.Command) > 0 {
		return nil // the manifest says what to run
	}
	image := &imageConfig{}
	if err == nil {
		err = json.Unmarshal(b, image)
	}
	if err != nil {
		t.refuse(at+".image", "its configuration is needed, since the manifest has no command: %v; --image and --pull unpack images", err)
		return &imageConfig{later: true} // one complaint is enough
	}
	if s.Dir == "" {
		s.Dir = image.Config.WorkingDir
	}
	return image
}

// rootImage finds the image of a service of PID 1 among those of the recipe.
func (t *translation) rootImage(at string, c *corev1.Container, s *Service) *imageConfig {
	if c.Image == "" {
		return nil // its programs are the root image's
	}
	if t.plan.Role != "" {
		t.refuse(at+".image", "the %s mounts for the pods, in the node's own mount namespace; leave it out, its programs are the root image's", t.plan.Role)
		return &imageConfig{later: true}
	}
	s.Root = path.Join(table.MemoryVolumeDir, t.plan.ID(), rootsDir, s.Name)
	if t.Images == nil {
		return &imageConfig{later: true}
	}
	found, err := t.Images(c.Image)
	if err == nil {
		image := &imageConfig{files: found.Files}
		if err = json.Unmarshal(found.Config, image); err == nil {
			t.fit(at, image)
			if s.Layers = found.Layers; s.Dir == "" {
				s.Dir = image.Config.WorkingDir
			}
			return image
		}
		err = fmt.Errorf("its configuration: %w", err)
	}
	t.refuse(at+".image", "%v", err)
	return &imageConfig{later: true}
}

// rootsDir holds the roots of a pod's services, beside its volumes: no volume's name
// begins with a dot.
const rootsDir = ".roots"

// openIn opens a file as a container sees it.
func (t *translation) openIn(s *Service, image *imageConfig, name string) (fs.File, error) {
	if t.Target == Init {
		return image.files.Open(name)
	}
	return os.OpenInRoot(filepath.Join(t.ImagesRoot, s.Root), name)
}

// program is the path of what a service of PID 1 executes. A name without a slash is
// looked up in its image, as container runtimes do when they start it.
func (t *translation) program(at, name string, s *Service) string {
	switch {
	case path.IsAbs(name):
		return name
	case s.image == nil:
		t.refuse(at, "must begin with an absolute path: %q would be looked up, and a service's program is known when the image is built", name)
	case s.image.later && !t.ImagesLater && !t.refused(s.Path+".image"):
		t.refuse(at, "must begin with an absolute path here: %q is looked up in image %s, which a recipe's build knows and this command does not", name, s.Image)
	case s.image.later:
	case strings.Contains(name, "/"):
		return path.Join("/", s.Dir, name)
	default:
		search := s.SearchPath()
		for dir := range strings.SplitSeq(search, ":") {
			p := path.Join(dir, name)
			if fi, err := fs.Stat(s.image.files, strings.TrimPrefix(p, "/")); path.IsAbs(p) && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				return p
			}
		}
		t.refuse(at, "%q is no program in image %s: none of %s has it", name, s.Image, search)
	}
	return name
}

// usualPath is the PATH that a runtime gives a container whose image has none.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// SearchPath is where a command without a slash is looked up.
func (s *Service) SearchPath() string {
	for _, e := range s.Env {
		if e.Name == "PATH" && e.Value != "" {
			return e.Value
		}
	}
	return usualPath
}

// HomeDir is the variable HOME of a container: by its image, or what a runtime takes
// for a number that the image does not know; "" for a name, whom the machine knows.
func (s *Service) HomeDir() string {
	switch {
	case s.Home != "":
		return s.Home
	case s.User == "" || s.User == "0":
		return "/root"
	case s.User[0] >= '0' && s.User[0] <= '9':
		return "/"
	}
	return ""
}

// UsualEnv is what a runtime gives every container that does not have it.
func (s *Service) UsualEnv() []Setting {
	var out []Setting
	for _, e := range []Setting{{"PATH", usualPath}, {"HOME", s.HomeDir()}} {
		given := func(x Setting) bool { return x.Name == e.Name }
		if e.Value != "" && !slices.ContainsFunc(s.Env, given) && !slices.ContainsFunc(s.SecretEnv, given) {
			out = append(out, e)
		}
	}
	return out
}

// fromImage is the rest of what an image says where the manifest does not: who the
// process is, and the signal that asks it to end. Names and groups are those of the
// image's own /etc/passwd and /etc/group, as a container runtime has it: the machine's
// are about other users.
func (t *translation) fromImage(at string, s *Service, image *imageConfig) {
	if image != nil && image.Config.StopSignal != "" && s.StopSignal == "" {
		switch s.StopSignal = signalName(image.Config.StopSignal); {
		case s.StopSignal == "", t.Target == Init && signalNumber(s.StopSignal) == 0:
			t.refuse(at+".image", "its StopSignal %q is no signal; give another with lifecycle.stopSignal", image.Config.StopSignal)
		case t.Target == Init && signalNumber(s.StopSignal) < 0:
			t.refuse(at+".image", "its StopSignal %q: real-time signals are not the same numbers everywhere; give another with lifecycle.stopSignal", image.Config.StopSignal)
		}
	}
	if s.Root == "" || t.refused(at+".securityContext") || t.Target == Init && (image == nil || image.later) {
		return
	}
	spec := s.User
	if spec == "" && image != nil {
		spec = image.Config.User
	}
	if u, _, _ := strings.Cut(spec, ":"); s.User != "" && number64(u) < 0 {
		return // a name by annotation is the machine's
	}
	files := [2]io.Reader{}
	for i, name := range []string{"etc/passwd", "etc/group"} {
		f, err := t.openIn(s, image, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.refuse(at+".image", "its /%s cannot be read: %v; as root it can, or give runAsUser and runAsGroup", name, err)
			return
		}
		defer f.Close()
		files[i] = f
	}
	u, err := user.GetExecUser(spec, &user.ExecUser{Home: "/"}, files[0], files[1])
	if err != nil {
		t.refuse(at+".image", "its user %q: %v; give runAsUser and runAsGroup as numbers", spec, err)
		return
	}
	for _, id := range append([]int{u.Uid, u.Gid}, u.Sgids...) { // the numbers of the image's own files are not looked at yet
		if id < 0 || id > 1<<31-1 {
			t.refuse(at+".image", "its user %q: %d in its /etc/passwd or /etc/group is not a user or group; give runAsUser and runAsGroup as numbers", spec, id)
			return
		}
	}
	if spec != "" {
		s.User = strconv.Itoa(u.Uid)
	}
	if s.Group == "" && spec != "" {
		s.Group = strconv.Itoa(u.Gid)
	}
	if files[0] != nil || t.Target == Init { // a machine's root is at home in /root
		s.Home = u.Home
	}
	if sc := t.pod.Spec.SecurityContext; u.Uid == 0 || sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict {
		return // root's groups in an image are of no use: they would only be made on the machine
	}
	for _, g := range u.Sgids {
		if id := int64(g); !slices.Contains(s.Groups, id) && strconv.Itoa(g) != s.Group {
			s.Groups = append(s.Groups, id)
		}
	}
}

// fit refuses what of an image's configuration no process can be started with, which a
// node would only find out then.
func (t *translation) fit(at string, image *imageConfig) {
	c := &image.Config
	for _, e := range c.Env {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.Contains(e, "\x00") {
			t.refuse(at+".image", "its variable %q: a name is needed, and no NUL", e)
		}
	}
	for _, word := range slices.Concat(c.Entrypoint, c.Cmd) {
		if strings.Contains(word, "\x00") {
			t.refuse(at+".image", "its command %q: a word with a NUL", word)
		}
	}
}

// signalRE is a signal as images name it: SIGTERM, TERM, SIGRTMIN+3, 15.
var signalRE = regexp.MustCompile(`^(?:SIG)?([A-Z][A-Z0-9]*(?:[+-][0-9]+)?)$`)

// signalName is a signal with its usual name, or number; "" if it is none.
func signalName(s string) string {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 65 {
		return s
	}
	if m := signalRE.FindStringSubmatch(strings.ToUpper(s)); m != nil {
		return "SIG" + m[1]
	}
	return ""
}
