package kernel

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRequirementsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, arch := range []string{"amd64", "arm64"} {
		list, err := Requirements(arch)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.Option == "" || strings.HasPrefix(r.Option, "CONFIG_") || r.Reason == "" || (r.As != BuiltIn && r.As != AsModule) || (r.As == AsModule) != (r.Module != "") {
				t.Errorf("%+v", r)
			}
			if seen[arch+r.Option] {
				t.Errorf("%s comes twice", r.Option)
			}
			seen[arch+r.Option] = true
		}
	}
	if !seen["amd64SERIAL_8250_CONSOLE"] || seen["arm64SERIAL_8250_CONSOLE"] || !seen["arm64SERIAL_AMBA_PL011_CONSOLE"] {
		t.Error("what is for one architecture is not told from the rest")
	}
}

// The configurations of Debian 13's kernels, cloud and general, as they are.
func debianConfigs(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	files, err := filepath.Glob("testdata/debian-*.config.gz")
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, f := range files {
		if out[strings.TrimSuffix(filepath.Base(f), ".config.gz")], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func archOf(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

func TestDebianKernelsAreFit(t *testing.T) {
	for name, b := range debianConfigs(t) {
		c, err := ReadConfig(b)
		if err != nil {
			t.Fatal(err)
		}
		missing, lost, err := Check(archOf(name), c, nil)
		if err != nil || len(missing)+len(lost) != 0 {
			t.Errorf("%s: missing %v, lost %v, %v", name, missing, lost, err)
		}
	}
}

// Each requirement alone makes a difference: taken out of a real configuration,
// or turned into a module where it must be built in, it is named.
func TestEachRequirementIsChecked(t *testing.T) {
	for name, b := range debianConfigs(t) {
		list, err := Requirements(archOf(name))
		if err != nil {
			t.Fatal(err)
		}
		real, err := ReadConfig(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			for _, value := range []string{"", "n", "m", "y"} {
				c := maps.Clone(real)
				delete(c, r.Option)
				if value != "" {
					c[r.Option] = value
				}
				missing, lost := compare(list, c, nil)
				gaps := missing
				if r.Without != "" {
					gaps = lost
				}
				good := value == "y" || value == "m" && r.As == AsModule
				if good != (len(missing)+len(lost) == 0) || !good && (len(gaps) != 1 || gaps[0].Option != r.Option) {
					t.Fatalf("%s: CONFIG_%s=%q: missing %v, lost %v", name, r.Option, value, missing, lost)
				}
			}
		}
	}
}

type modules struct {
	names    []string
	complete bool
}

func (m modules) Has(n string) bool { return slices.Contains(m.names, n) }
func (m modules) Complete() bool    { return m.complete }

func TestModulesBelongToTheConfiguration(t *testing.T) {
	list, err := Requirements("amd64")
	if err != nil {
		t.Fatal(err)
	}
	c, all := Config{}, modules{}
	for _, r := range list {
		c[r.Option] = r.letter()
		if r.Module != "" {
			all.names = append(all.names, r.Module)
		}
	}
	without := modules{names: slices.DeleteFunc(slices.Clone(all.names), func(n string) bool { return n == "erofs" })}
	complete := without
	complete.complete = true
	builtin := Config{}
	for k := range c {
		builtin[k] = "y"
	}
	for _, tt := range []struct {
		name string
		c    Config
		m    Modules
		want string // what is said; "" for nothing
	}{
		{"all there", c, all, ""},
		{"built in", builtin, without, ""},
		{"a module that did not come", c, without, "CONFIG_EROFS_FS=m: it is a module, and the modules that came with the kernel hold no erofs; for: file system of the root image"},
		{"no configuration, all modules", nil, all, ""},
		{"no configuration, may be built in", nil, without, ""},
		{"no configuration, not built in", nil, complete, "CONFIG_EROFS_FS=m: there is no module erofs, and it is not built in"},
		{"neither", nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			missing, lost, err := Check("amd64", tt.c, tt.m)
			if err != nil || len(lost) != 0 {
				t.Fatalf("lost %v, %v", lost, err)
			}
			err = Unfit(missing)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant %q", err, tt.want)
			}
		})
	}
}

func TestReadConfigRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":           nil,
		"something else":    []byte("hello\n"),
		"comments alone":    []byte("# CONFIG_SECCOMP is not set\n"),
		"damaged gzip":      []byte("\x1f\x8bxxxxxxxxxxxxx"),
		"lz4":               []byte("\x02\x21\x4c\x18xxxxxxx"),
		"a line too long":   []byte("CONFIG_X=" + strings.Repeat("x", 1<<17)),
		"larger than all":   bytes.Repeat([]byte("#\n"), maxConfig),
		"a kernel's header": append(make([]byte, 56), "ARM\x64 and no configuration"...),
	} {
		if c, err := ReadConfig(b); err == nil {
			t.Errorf("%s: %v", name, c)
		}
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add([]byte("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x\"\n"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadConfig(b)
		if err == nil && len(c) == 0 {
			t.Error("an empty configuration")
		}
	})
}
