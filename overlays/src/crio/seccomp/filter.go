package seccomp

import (
	"errors"
	"fmt"
)

// ErrNoFilters is the answer of every function that would build a filter.
var ErrNoFilters = errors.New("this program was built without libseccomp and cannot build seccomp filters; the OCI runtime (crun) builds them from the profile")

// ScmpAction is what happens when a rule matches.
type ScmpAction uint

// The actions, in upstream's order. A return code sits in the upper half.
const (
	ActInvalid ScmpAction = iota
	ActKillThread
	ActTrap
	ActNotify
	ActErrno
	ActTrace
	ActAllow
	ActLog
	ActKillProcess
)

// String describes the action.
func (a ScmpAction) String() string {
	switch a & 0xFFFF {
	case ActKillThread:
		return "Action: Kill thread"
	case ActKillProcess:
		return "Action: Kill process"
	case ActTrap:
		return "Action: Send SIGSYS"
	case ActErrno:
		return fmt.Sprintf("Action: Return error code %d", a>>16)
	case ActTrace:
		return fmt.Sprintf("Action: Notify tracing processes with code %d", a>>16)
	case ActNotify:
		return "Action: Notify userspace"
	case ActLog:
		return "Action: Log system call"
	case ActAllow:
		return "Action: Allow system call"
	}
	return fmt.Sprintf("Unrecognized Action %#x", uint(a))
}

// SetReturnCode is the action with a 16-bit return code; only ActErrno and
// ActTrace have one, others are returned as they are.
func (a ScmpAction) SetReturnCode(code int16) ScmpAction {
	if base := a & 0xFFFF; base == ActErrno || base == ActTrace {
		return base | (ScmpAction(code)&0xFFFF)<<16
	}
	return a
}

// ScmpCompareOp compares an argument of a system call with a value.
type ScmpCompareOp uint

// The comparisons, in upstream's order.
const (
	CompareInvalid ScmpCompareOp = iota
	CompareNotEqual
	CompareLess
	CompareLessOrEqual
	CompareEqual
	CompareGreaterEqual
	CompareGreater
	CompareMaskedEqual
)

// ScmpCondition is one comparison of a rule.
type ScmpCondition struct {
	Argument uint          `json:"argument,omitempty"` // 0 to 5
	Op       ScmpCompareOp `json:"operator,omitempty"`
	Operand1 uint64        `json:"operand_one,omitempty"`
	Operand2 uint64        `json:"operand_two,omitempty"` // the datum of CompareMaskedEqual
}

// MakeCondition makes a condition of one or two values and checks its parts.
func MakeCondition(arg uint, comparison ScmpCompareOp, values ...uint64) (ScmpCondition, error) {
	switch {
	case comparison == CompareInvalid || comparison > CompareMaskedEqual:
		return ScmpCondition{}, fmt.Errorf("unrecognized comparison operator %#x", uint(comparison))
	case arg > 5:
		return ScmpCondition{}, fmt.Errorf("a system call has arguments 0 to 5, there is no argument %d", arg)
	case len(values) < 1 || len(values) > 2:
		return ScmpCondition{}, fmt.Errorf("a condition has one or two values, not %d", len(values))
	}
	c := ScmpCondition{Argument: arg, Op: comparison, Operand1: values[0]}
	if len(values) == 2 {
		c.Operand2 = values[1]
	}
	return c, nil
}

// ScmpFilter is a filter. None can be made, so its methods are never of use;
// they exist for the callers to compile, and fail.
type ScmpFilter struct{}

// NewFilter returns [ErrNoFilters].
func NewFilter(ScmpAction) (*ScmpFilter, error) { return nil, ErrNoFilters }

// AddArch returns [ErrNoFilters].
func (*ScmpFilter) AddArch(ScmpArch) error { return ErrNoFilters }

// SetNoNewPrivsBit returns [ErrNoFilters].
func (*ScmpFilter) SetNoNewPrivsBit(bool) error { return ErrNoFilters }

// AddRule returns [ErrNoFilters].
func (*ScmpFilter) AddRule(ScmpSyscall, ScmpAction) error { return ErrNoFilters }

// AddRuleConditional returns [ErrNoFilters].
func (*ScmpFilter) AddRuleConditional(ScmpSyscall, ScmpAction, []ScmpCondition) error {
	return ErrNoFilters
}
