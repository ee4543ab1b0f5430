package component

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// Config is component.yaml. Paths have forward slashes.
type Config struct {
	// Module is the module whose source is built; go.mod says at which version.
	Module string `yaml:"module"`
	// Tags are build tags.
	Tags []string `yaml:"tags"`
	// Binaries maps the names of the programs to their packages in the module,
	// such as ./cmd/kubelet.
	Binaries map[string]string `yaml:"binaries"`
	// Stamp sets string variables (importpath.Name) when linking. In a value
	// {{version}} is the module's version, v1.36.3, and {{version-bare}} is 1.36.3.
	Stamp map[string]string `yaml:"stamp"`
	// Copy maps directories of this repository to directories of the module's
	// source. The .go files directly in them that are not tests are copied.
	Copy map[string]string `yaml:"copy"`
	// Replace maps modules to directories below the component's that stand in for them.
	Replace map[string]string `yaml:"replace"`
	// Patch maps modules below the component's to directories below its own,
	// whose *.patch files are applied to the module's source.
	Patch map[string]string `yaml:"patch"`
	// Lean says that no code looks methods up by names made at run time, so that
	// the linker drops the methods that nobody calls. A build with such code fails.
	Lean bool `yaml:"lean"`
	// Tests are package patterns of the module, such as ./pkg/kubelet/nodeshutdown/...
	Tests []string `yaml:"tests"`
}

// component is a component's directory, read.
type component struct {
	Config
	name    string
	dir     string         // overlays/src/<name>
	root    string         // the repository
	pin                    // of the module
	patched map[string]pin // of the modules in Patch
	mod     *modfile.File
}

var (
	componentName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	binaryName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	buildTag      = regexp.MustCompile(`^[A-Za-z0-9_.]+$`)
	stampVariable = regexp.MustCompile(`^[A-Za-z0-9._~/-]+\.[A-Za-z_][A-Za-z0-9_]*$`)
	placeholder   = regexp.MustCompile(`\{\{.*?\}\}`)
)

// load reads and checks overlays/src/<name>.
func load(root, name string) (*component, error) {
	if !componentName.MatchString(name) {
		return nil, fmt.Errorf("component %q: a name is made of a-z, 0-9 and single hyphens", name)
	}
	c := &component{name: name, root: root, dir: filepath.Join(root, "overlays", "src", name)}
	file := filepath.Join(c.dir, "component.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("component %s: %w", name, err)
	}
	if c.Config, err = parseConfig(data); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := c.readModule(); err != nil {
		return nil, fmt.Errorf("component %s: %w", name, err)
	}
	return c, nil
}

// parseConfig reads component.yaml strictly: an unknown field is an error with its line.
func parseConfig(data []byte) (Config, error) {
	var c Config
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); errors.Is(err, io.EOF) {
		return c, errors.New("the file is empty")
	} else if err != nil {
		return c, err
	}
	if err := dec.Decode(new(Config)); !errors.Is(err, io.EOF) {
		return c, errors.New("there is more than one YAML document")
	}
	return c, c.check()
}

func (c *Config) check() error {
	if err := module.CheckPath(c.Module); err != nil {
		return fmt.Errorf("module: %w", err)
	}
	if len(c.Binaries) == 0 {
		return errors.New("binaries: none is named")
	}
	for name, pkg := range c.Binaries {
		if !binaryName.MatchString(name) {
			return fmt.Errorf("binaries: %q is not a file name of letters, digits, dots and hyphens", name)
		}
		if err := checkPackage(pkg); err != nil {
			return fmt.Errorf("binaries.%s: %w", name, err)
		}
	}
	for _, pkg := range c.Tests {
		if err := checkPackage(pkg); err != nil {
			return fmt.Errorf("tests: %w", err)
		}
	}
	for _, tag := range c.Tags {
		if !buildTag.MatchString(tag) {
			return fmt.Errorf("tags: %q is not a build tag", tag)
		}
	}
	for v, value := range c.Stamp {
		if !stampVariable.MatchString(v) {
			return fmt.Errorf("stamp: %q is not an import path, a dot and a variable", v)
		}
		for _, p := range placeholder.FindAllString(value, -1) {
			if p != "{{version}}" && p != "{{version-bare}}" {
				return fmt.Errorf("stamp: %s: %s is neither {{version}} nor {{version-bare}}", v, p)
			}
		}
	}
	for from, to := range c.Copy {
		if err := errors.Join(checkDir(from), checkDir(to)); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	for mod, dir := range c.Replace {
		if mod == c.Module {
			return fmt.Errorf("replace: %s is the component's own module; patch it instead", mod)
		}
		if err := errors.Join(module.CheckPath(mod), checkDir(dir)); err != nil {
			return fmt.Errorf("replace: %w", err)
		}
	}
	for mod, dir := range c.Patch {
		if mod == c.Module {
			return fmt.Errorf("patch: %s is the component's own module, whose patches lie in patches/", mod)
		}
		if _, both := c.Replace[mod]; both {
			return fmt.Errorf("patch: %s is replaced; change what stands in for it", mod)
		}
		if err := errors.Join(module.CheckPath(mod), checkDir(dir)); err != nil {
			return fmt.Errorf("patch: %w", err)
		}
	}
	return nil
}

// checkPackage wants a package in the module: "." or "./…", clean.
func checkPackage(pkg string) error {
	rel, ok := strings.CutPrefix(pkg, "./")
	if pkg == "." || ok && rel != "" && rel == path.Clean(rel) && filepath.IsLocal(rel) {
		return nil
	}
	return fmt.Errorf("%q is not a package of the module, such as ./cmd/name", pkg)
}

// checkDir wants a clean relative directory that does not lead out.
func checkDir(dir string) error {
	if dir == "." || dir != path.Clean(dir) || !filepath.IsLocal(dir) {
		return fmt.Errorf("%q is not a relative directory below its root", dir)
	}
	return nil
}

// importPath is the import path of a package or pattern of the module.
func (c *component) importPath(pkg string) string {
	return path.Join(c.Module, pkg)
}

// flags are those of go build, but for the output and the packages.
func (c *component) flags(arch string) ([]string, error) {
	ld := []string{linkFlags}
	for _, v := range slices.Sorted(maps.Keys(c.Stamp)) {
		value := strings.NewReplacer(
			"{{version}}", c.version,
			"{{version-bare}}", strings.TrimPrefix(c.version, "v"),
		).Replace(c.Stamp[v])
		q, err := quote(v + "=" + value)
		if err != nil {
			return nil, fmt.Errorf("stamp: %w", err)
		}
		ld = append(ld, "-X "+q)
	}
	if c.Lean {
		ld = append(ld, "-dumpdep")
	}
	if arch != "amd64" && arch != "arm64" {
		return nil, fmt.Errorf("architecture %q is neither amd64 nor arm64", arch)
	}
	flags := slices.Clone(buildFlags)
	if len(c.Tags) > 0 {
		flags = append(flags, "-tags", strings.Join(slices.Sorted(slices.Values(c.Tags)), ","))
	}
	return append(flags, "-ldflags", strings.Join(ld, " ")), nil
}

// quote makes one word of s for -ldflags, whose quotes have no escapes.
func quote(s string) (string, error) {
	switch {
	case strings.ContainsAny(s, "\n\r"):
		return "", fmt.Errorf("%q has more than one line", s)
	case !strings.ContainsAny(s, " \t'\""):
		return s, nil
	case !strings.Contains(s, "'"):
		return "'" + s + "'", nil
	case !strings.Contains(s, `"`):
		return `"` + s + `"`, nil
	}
	return "", fmt.Errorf("%s has both kinds of quotes", s)
}
