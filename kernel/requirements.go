package kernel

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"

	"garboard.local/builder/recipe"
)

//go:embed requirements.yaml
var requirements []byte

// Requirement is one option that a node needs of its kernel.
type Requirement struct {
	Option  string `json:"option"` // without CONFIG_
	As      string `json:"as"`     // BuiltIn, or AsModule: that too
	Module  string `json:"module,omitempty"`
	Arch    string `json:"arch,omitempty"`
	Without string `json:"without,omitempty"` // what is lost; "": the node does not run
	Reason  string `json:"reason"`
}

// Values of Requirement.As.
const (
	BuiltIn  = "builtin"
	AsModule = "module"
)

// letter is the value in a configuration.
func (r Requirement) letter() string {
	if r.As == AsModule {
		return "m"
	}
	return "y"
}

// Line is the requirement as a line of a configuration.
func (r Requirement) Line() string { return "CONFIG_" + r.Option + "=" + r.letter() }

// Requirements are what a node of an architecture needs.
func Requirements(arch string) ([]Requirement, error) {
	var all, out []Requirement
	if err := yaml.UnmarshalStrict(requirements, &all); err != nil {
		return nil, fmt.Errorf("kernel/requirements.yaml: %w", err)
	}
	for _, r := range all {
		if r.Arch == "" || r.Arch == arch {
			out = append(out, r)
		}
	}
	return out, nil
}

// neededModules are those that a node needs wherever they are not built in, whatever
// its recipe says: which of them are differs from kernel to kernel.
func neededModules(arch string) (out []recipe.Module, err error) {
	list, err := Requirements(arch)
	for _, r := range list {
		if r.Module != "" {
			out = append(out, recipe.Module{Name: r.Module, Optional: true, Reason: r.Reason})
		}
	}
	return out, err
}

// Gap is a requirement that a kernel does not meet.
type Gap struct {
	Requirement
	Problem string `json:"problem"`
}

func (g Gap) String() string {
	s := fmt.Sprintf("%s: %s; for: %s", g.Line(), g.Problem, g.Reason)
	if g.Without != "" {
		s += "; the node goes without " + g.Without
	}
	return s
}

// Modules says what of a kernel's modules there is, where that is known.
type Modules interface {
	// Has says whether there is a module of that name, in a file or built in.
	Has(name string) bool
	// Complete says whether what Has denies is certain not to be built in.
	Complete() bool
}

// Check compares a kernel with what a node of an architecture needs. Either of
// its configuration and its modules may be nil: unknown. It returns what makes
// the kernel unfit, and what a node can do without.
func Check(arch string, c Config, m Modules) (missing, lost []Gap, err error) {
	list, err := Requirements(arch)
	if err != nil {
		return nil, nil, err
	}
	missing, lost = compare(list, c, m)
	return missing, lost, nil
}

func compare(list []Requirement, c Config, m Modules) (missing, lost []Gap) {
	for _, r := range list {
		p := r.problem(c, m)
		switch {
		case p == "":
		case r.Without == "":
			missing = append(missing, Gap{r, p})
		default:
			lost = append(lost, Gap{r, p})
		}
	}
	return missing, lost
}

// problem says what is wrong; "" if nothing is, or nobody can tell.
func (r Requirement) problem(c Config, m Modules) string {
	if c == nil {
		if r.Module == "" || m == nil || m.Has(r.Module) || !m.Complete() {
			return ""
		}
		return fmt.Sprintf("there is no module %s, and it is not built in", r.Module)
	}
	switch have := c[r.Option]; {
	case have == "y":
		return ""
	case have == "m" && r.As == AsModule:
		if r.Module == "" || m == nil || m.Has(r.Module) {
			return ""
		}
		return fmt.Sprintf("it is a module, and the modules that came with the kernel hold no %s", r.Module)
	case have == "m":
		return "it is a module and must be built in"
	case have != "" && have != "n":
		return fmt.Sprintf("it has the value %s", have)
	}
	return "it is not set"
}
