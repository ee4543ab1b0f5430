package seccomp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"garboard.local/init/table"
)

// arches are the words for architectures in profiles (OCI runtime specification).
func arches() []string {
	return []string{"NATIVE", "X86", "X86_64", "X32", "ARM", "AARCH64", "MIPS", "MIPS64", "MIPS64N32", "MIPSEL", "MIPSEL64", "MIPSEL64N32",
		"PPC", "PPC64", "PPC64LE", "S390", "S390X", "PARISC", "PARISC64", "RISCV64", "LOONGARCH64", "M68K", "SH", "SHEB"}
}

// names are those of a rule, however they are written.
func (r *Rule) names() []string {
	if r.Name != "" {
		return []string{r.Name}
	}
	return r.Names
}

// check looks at everything that does not depend on the target, so that a
// profile is wrong for every service or for none.
func (p *Profile) check() error {
	var errs []error
	if _, err := action(p.DefaultAction, p.DefaultErrnoRet, p.DefaultErrno); err != nil {
		errs = append(errs, fmt.Errorf("defaultAction: %w", err))
	}
	if len(p.Architectures) > 0 && len(p.ArchMap) > 0 {
		errs = append(errs, errors.New("architectures and archMap are two ways to say one thing; leave one of them out"))
	}
	named := slices.Clone(p.Architectures)
	for _, a := range p.ArchMap {
		named = append(append(named, a.Arch), a.SubArches...)
	}
	for _, a := range named {
		if word, ok := strings.CutPrefix(a, "SCMP_ARCH_"); !ok || !slices.Contains(arches(), word) {
			errs = append(errs, fmt.Errorf("architecture %q is not one, such as SCMP_ARCH_X86_64", a))
		}
	}
	for _, f := range p.Flags {
		if _, err := flag(f); err != nil {
			errs = append(errs, err)
		}
	}
	if p.ListenerPath != "" || p.ListenerMetadata != "" {
		errs = append(errs, errors.New("listenerPath goes with SCMP_ACT_NOTIFY, which a service cannot have"))
	}
	for i := range p.Syscalls {
		if err := p.Syscalls[i].check(); err != nil {
			errs = append(errs, fmt.Errorf("syscalls[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Rule) check() error {
	switch {
	case r.Name != "" && len(r.Names) > 0:
		return errors.New("name and names are two ways to say one thing; leave one of them out")
	case len(r.names()) == 0:
		return errors.New("it names no system call")
	}
	if _, err := action(r.Action, r.ErrnoRet, r.Errno); err != nil {
		return err
	}
	for i, a := range r.Args {
		switch {
		case a.Index >= arguments:
			return fmt.Errorf("args[%d]: index %d; a system call has the arguments 0 to 5", i, a.Index)
		case !slices.Contains([]string{opEQ, opNE, opLT, opLE, opGT, opGE, opMaskedEQ}, a.Op):
			return fmt.Errorf("args[%d]: op %q is not one of SCMP_CMP_EQ, NE, LT, LE, GT, GE, MASKED_EQ", i, a.Op)
		case a.Op == opMaskedEQ && a.ValueTwo&^a.Value != 0:
			return fmt.Errorf("args[%d]: valueTwo %#x has bits that are not in the mask, value %#x, so nothing is ever equal", i, a.ValueTwo, a.Value)
		}
	}
	for _, f := range []Filter{r.Includes, r.Excludes} {
		for _, c := range f.Caps {
			if short, ok := strings.CutPrefix(c, "CAP_"); !ok || table.Capability(short) < 0 {
				return fmt.Errorf("%q is not a capability, such as CAP_SYS_ADMIN", c)
			}
		}
		if _, _, ok := release(f.MinKernel); f.MinKernel != "" && !ok {
			return fmt.Errorf("minKernel %q is not a version, such as 4.8", f.MinKernel)
		}
	}
	return nil
}
