package seccomp

import (
	"os"
	"strings"
	"testing"
)

func TestErrors(t *testing.T) {
	rule := func(r string) string { return `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [` + r + `]}` }
	for _, c := range []struct{ name, profile, want string }{
		{"empty", ``, "not a seccomp profile"},
		{"no object", `[]`, "not a seccomp profile"},
		{"cut off", `{"defaultAction": "SCMP_ACT_ALLOW"`, "not a seccomp profile"},
		{"more behind it", `{"defaultAction": "SCMP_ACT_ALLOW"} x`, "not a seccomp profile"},
		{"unknown field", `{"defaultAction": "SCMP_ACT_ALLOW", "sycalls": []}`, `unknown field "sycalls"`},
		{"one field twice", `{"defaultAction": "SCMP_ACT_ALLOW", "defaultAction": "SCMP_ACT_ERRNO"}`, `duplicate field "defaultAction"`},
		{"no default", `{"syscalls": []}`, "defaultAction: it has no action"},
		{"no action", rule(`{"names": ["read"]}`), "syscalls[0]: it has no action"},
		{"another action", rule(`{"names": ["read"], "action": "SCMP_ACT_DENY"}`), `action "SCMP_ACT_DENY" is not one of`},
		{"notify", rule(`{"names": ["read"], "action": "SCMP_ACT_NOTIFY"}`), "nobody would answer"},
		{"trace", rule(`{"names": ["read"], "action": "SCMP_ACT_TRACE"}`), "nobody traces"},
		{"listener", `{"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/run/x"}`, "listenerPath goes with"},
		{"errno that is none", rule(`{"names": ["read"], "action": "SCMP_ACT_ERRNO", "errno": "EFOO"}`), `errno "EFOO" is not one`},
		{"errno too big", rule(`{"names": ["read"], "action": "SCMP_ACT_ERRNO", "errnoRet": 4096}`), "errnoRet 4096 is not between"},
		{"errno 0", rule(`{"names": ["read"], "action": "SCMP_ACT_ERRNO", "errno": "0"}`), `errno "0" is not one`},
		{"errno of another action", rule(`{"names": ["read"], "action": "SCMP_ACT_LOG", "errnoRet": 1}`), "an errno goes with SCMP_ACT_ERRNO"},
		{"no names", rule(`{"action": "SCMP_ACT_LOG"}`), "it names no system call"},
		{"name and names", rule(`{"name": "read", "names": ["write"], "action": "SCMP_ACT_LOG"}`), "two ways"},
		{"seventh argument", rule(`{"names": ["read"], "action": "SCMP_ACT_LOG", "args": [{"index": 6, "op": "SCMP_CMP_EQ", "value": 1}]}`), "index 6"},
		{"negative index", rule(`{"names": ["read"], "action": "SCMP_ACT_LOG", "args": [{"index": -1, "op": "SCMP_CMP_EQ", "value": 1}]}`), "not a seccomp profile"},
		{"other comparison", rule(`{"names": ["read"], "action": "SCMP_ACT_LOG", "args": [{"index": 0, "op": "==", "value": 1}]}`), `op "=="`},
		{"never equal", rule(`{"names": ["read"], "action": "SCMP_ACT_LOG", "args": [{"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 1, "valueTwo": 2}]}`), "nothing is ever equal"},
		{"value of 65 bits", rule(`{"names": ["read"], "action": "SCMP_ACT_LOG", "args": [{"index": 0, "op": "SCMP_CMP_EQ", "value": 18446744073709551616}]}`), "not a seccomp profile"},
		{"other capability", rule(`{"names": ["read"], "action": "SCMP_ACT_LOG", "includes": {"caps": ["SYS_ADMIN"]}}`), `"SYS_ADMIN" is not a capability`},
		{"kernel that is none", rule(`{"names": ["read"], "action": "SCMP_ACT_LOG", "includes": {"minKernel": "new"}}`), `minKernel "new"`},
		{"architecture", `{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["x86_64"]}`, `architecture "x86_64"`},
		{"architectures twice", `{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86"], "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []}]}`, "two ways"},
		{"flag", `{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["LOG"]}`, `flag "LOG"`},
		{"flag of notify", `{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]}`, "SCMP_ACT_NOTIFY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse([]byte(c.profile)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestUnknownNames(t *testing.T) {
	p, err := Parse([]byte(`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
		{"names": ["read", "riscv_flush_icache", "_llseek", "opne", "qqqqqqqqqqqqqqqq"], "action": "SCMP_ACT_ERRNO"},
		{"names": ["opne"], "action": "SCMP_ACT_LOG"},
		{"names": ["of_another"], "action": "SCMP_ACT_LOG", "includes": {"arches": ["s390x"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Unknown(), "; "); got != `"opne" is no system call; did you mean "open"?; "qqqqqqqqqqqqqqqq" is no system call` {
		t.Error(got)
	}
}

// What a target decides: architecture, capabilities, kernel.
func TestTargets(t *testing.T) {
	const program = `{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_TSYNC"], "syscalls": [
		{"names": ["kexec_load"], "action": "SCMP_ACT_ERRNO", "errnoRet": 2, "excludes": {"minKernel": "6.12"}},
		{"names": ["kexec_load"], "action": "SCMP_ACT_ERRNO", "errnoRet": 3, "includes": {"minKernel": "6.12", "caps": ["CAP_SYS_BOOT"]}},
		{"names": ["open", "kexec_file_load"], "action": "SCMP_ACT_ERRNO", "errnoRet": 4}]}`
	p, err := Parse([]byte(program))
	if err != nil {
		t.Fatal(err)
	}
	const x86, arm = 0xc000003e, 0xc00000b7
	for _, c := range []struct {
		name   string
		target Target
		ask    ask
		want   uint32
	}{
		{"new kernel", Target{Arch: "amd64", Kernel: "6.12.117+deb13-cloud-amd64"}, ask{audit: x86, number: 246}, retErrno + 3},
		{"newer kernel", Target{Arch: "amd64", Kernel: "7.3.1"}, ask{audit: x86, number: 246}, retErrno + 3},
		{"kernel not known", Target{Arch: "amd64"}, ask{audit: x86, number: 246}, retErrno + 3},
		{"old kernel", Target{Arch: "amd64", Kernel: "6.1.0-40-amd64"}, ask{audit: x86, number: 246}, retErrno + 2},
		{"without the capability", Target{Arch: "amd64", Caps: []string{"KILL"}}, ask{audit: x86, number: 246}, retAllow},
		{"with it", Target{Arch: "arm64", Caps: []string{"SYS_BOOT"}}, ask{audit: arm, number: 104}, retErrno + 3},
		{"amd64's open", Target{Arch: "amd64"}, ask{audit: x86, number: 2}, retErrno + 4},
		{"arm64 has none", Target{Arch: "arm64"}, ask{audit: arm, number: 2}, retAllow},
		{"other architecture", Target{Arch: "arm64"}, ask{audit: x86, number: 2}, retKillThread},
		{"32 bits", Target{Arch: "amd64"}, ask{audit: 0x40000003, number: 4}, retKillThread},
		{"x32", Target{Arch: "amd64"}, ask{audit: x86, number: 1<<30 + 1}, retKillThread},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := p.Filter(c.target)
			if err != nil {
				t.Fatal(err)
			}
			if got := run(t, newVM(t, disassemble(t, f.Program)), c.ask); got != c.want {
				t.Errorf("%#x, want %#x", got, c.want)
			}
			if f.Flags != 2 {
				t.Errorf("flags %d", f.Flags)
			}
		})
	}
	if _, err := p.Filter(Target{Arch: "s390x"}); err == nil {
		t.Error("a program for s390x")
	}
}

func TestAServiceCanBeStarted(t *testing.T) {
	for profile, ok := range map[string]bool{
		`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}`:                                                                                                          false,
		`{"defaultAction": "SCMP_ACT_KILL", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}`:                                                            false,
		`{"defaultAction": "SCMP_ACT_KILL", "syscalls": [{"names": ["execve"], "action": "SCMP_ACT_ALLOW"}]}`:                                                          true,
		`{"defaultAction": "SCMP_ACT_LOG", "syscalls": []}`:                                                                                                            true,
		`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["execve"], "action": "SCMP_ACT_TRAP"}]}`:                                                          false,
		`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["execve"], "action": "SCMP_ACT_TRAP", "args": [{"index": 2, "value": 0, "op": "SCMP_CMP_EQ"}]}]}`: true,
	} {
		p, err := Parse([]byte(profile))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Compile(Target{Arch: "arm64"}); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "execve") {
			t.Errorf("%s: %v", profile, err)
		}
	}
}

func TestErrorNumbers(t *testing.T) {
	seven := uint(7)
	for _, c := range []struct {
		number *uint
		errno  string
		want   uint32
	}{{nil, "", 1}, {&seven, "", 7}, {&seven, "EINVAL", 22}, {nil, "13", 13}, {nil, "EOPNOTSUPP", 95}, {nil, "ENOTSUP", 95}, {nil, "EWOULDBLOCK", 11}, {nil, "EDEADLOCK", 35}, {nil, "EHWPOISON", 133}} {
		if got, err := errorNumber(c.number, c.errno); err != nil || got != c.want {
			t.Errorf("%q: %d, %v; want %d", c.errno, got, err, c.want)
		}
	}
}

// The embedded profile is that of the cri-o that the repository builds.
func TestDefaultIsOfThisCRIO(t *testing.T) {
	_, source, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../../overlays/src/crio/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range strings.Split(source, ", ") {
		if !strings.Contains(string(mod), "\t"+m+" ") {
			t.Errorf("default.json is from %s, which overlays/src/crio/go.mod does not have; go generate ./pod/seccomp writes it anew", m)
		}
	}
}

// Whatever is taken for a profile makes programs that end, for both
// architectures, and that say what the rules say.
func FuzzProfile(f *testing.F) {
	comparisons, err := os.ReadFile("testdata/comparisons.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(comparisons)
	f.Add([]byte(`{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrno": "ENOSYS", "syscalls": [{"name": "execve", "action": "SCMP_ACT_ALLOW"}], "flags": ["SECCOMP_FILTER_FLAG_LOG"]}`))
	f.Add([]byte(`{"defaultAction": "SCMP_ACT_KILL", "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X32"]}], "syscalls": [{"names": ["execve"], "action": "SCMP_ACT_LOG", "includes": {"minKernel": "4.8", "arches": ["amd64"]}}]}`))
	names := map[string]map[uint32]string{}
	for _, goarch := range Arches() {
		names[goarch] = callNames(f, goarch)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		p.Unknown()
		for _, goarch := range Arches() {
			target := Target{Arch: goarch, Caps: []string{}}
			program, err := p.Compile(target)
			if err != nil {
				continue
			}
			vm := newVM(t, program)
			audit := map[string]uint32{"amd64": 0xc000003e, "arm64": 0xc00000b7}[goarch]
			for n := range uint32(450) {
				a := ask{audit: audit, number: n}
				for i := range a.args {
					a.args[i] = uint64(n) << (8 * i)
				}
				got := run(t, vm, a)
				if simple(p) && got != judge(p, target, names[goarch], a) {
					t.Fatalf("%s: %v: %#x", goarch, a, got)
				}
			}
		}
	})
}

// simple says whether the interpreter knows all of a profile's words.
func simple(p *Profile) bool {
	known := map[string]bool{"": true, "EPERM": true, "ESRCH": true, "3": true, "EINVAL": true, "ENOSYS": true}
	ok := known[p.DefaultErrno]
	for _, r := range p.Syscalls {
		ok = ok && known[r.Errno] && r.Includes.MinKernel == "" && r.Excludes.MinKernel == ""
	}
	return ok
}
