package builder

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"garboard.local/builder/recipe"
	"garboard.local/builder/store"
	"garboard.local/kernel"
)

// ipxe reads a script as iPXE's own rules are (https://ipxe.org/scripting, src/core/exec.c):
// the first line is the magic, a word with # at its beginning ends a line, and commands are
// parted by words of their own. It returns the commands of each line, and the labels.
func ipxe(t *testing.T, script string) (lines [][][]string, labels []string) {
	t.Helper()
	all := strings.Split(strings.TrimSuffix(script, "\n"), "\n")
	if all[0] != "#!ipxe" {
		t.Fatalf("the first line is %q", all[0])
	}
	for _, l := range all[1:] {
		if l, ok := strings.CutPrefix(l, ":"); ok {
			labels = append(labels, l)
			continue
		}
		commands := [][]string{nil}
		for _, w := range strings.Fields(l) {
			last := len(commands) - 1
			if strings.HasPrefix(w, "#") {
				break
			} else if w == "||" || w == "&&" || w == ";" {
				commands = append(commands, nil)
			} else {
				commands[last] = append(commands[last], w)
			}
		}
		if commands[0] != nil {
			lines = append(lines, commands)
		}
	}
	return lines, labels
}

func TestIPXEScript(t *testing.T) {
	for _, arch := range recipe.Arches {
		script, err := ipxeScript("node", arch, []string{"console=ttyS0", "a.b=\"c d\"", "x=y#z"})
		if err != nil {
			t.Fatal(err)
		}
		lines, labels := ipxe(t, string(script))
		var words [][]string
		for _, commands := range lines {
			words = append(words, commands...)
			for _, c := range commands {
				if len(c) > 0 && c[0] == "goto" && !slices.Contains(labels, c[1]) {
					t.Errorf("%s: goto %s, and the labels are %q", arch, c[1], labels)
				}
			}
		}
		const given = "initrd=initramfs.img console=ttyS0 a.b=\"c d\" x=y#z"
		for _, want := range []string{
			"kernel --name vmlinuz vmlinuz " + given, "kernel --name vmlinuz node-" + arch + ".vmlinuz " + given,
			"initrd --name initramfs.img initramfs.img", "initrd --name initramfs.img node-" + arch + ".initramfs.img", "boot",
		} {
			if !slices.ContainsFunc(words, func(c []string) bool { return strings.Join(c, " ") == want }) {
				t.Errorf("%s: no command %q in\n%s", arch, want, script)
			}
		}
		// iPXE for BIOS calls itself i386, that for UEFI x86_64; both boot amd64.
		check := lines[0]
		if strings.Join(check[0], " ") != "iseq ${buildarch} arm64" || strings.Join(check[1], " ") != "goto wrong" {
			t.Errorf("%s: the architecture is checked with %q", arch, check)
		}
		if or := strings.Contains(string(script), "arm64 || goto wrong"); or != (arch == "arm64") {
			t.Errorf("%s: refused is the wrong architecture:\n%s", arch, script)
		}
	}
}

func TestIPXEScriptRefuses(t *testing.T) {
	for _, w := range []string{"||", "&&", ";", "#quiet", "a=${b}", "a=\"b #c\""} {
		if s, err := ipxeScript("node", "amd64", []string{"quiet", w}); err == nil || !strings.Contains(err.Error(), "has a meaning to iPXE") {
			t.Errorf("%q: %v\n%s", w, err, s)
		}
	}
}

// The words of an OCI kernel's maker are on every command line, before the recipe's.
func TestKernelWords(t *testing.T) {
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	b := &build{arch: "amd64", recipe: &recipe.Recipe{Name: "x", Cmdline: []string{"quiet", "a=1"}}, kernel: &kernel.Kernel{Cmdline: " maker=1  a=0 "}, Options: Options{Store: st}}
	if got := strings.Join(b.kernelWords("more"), " "); got != "maker=1 a=0 quiet a=1 more" {
		t.Errorf("the command line is %q", got)
	}
	files, err := b.directBoot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files, func(f outFile) bool { return f.name == NetbootName })
	if i < 0 {
		t.Fatalf("direct boot has the files %v", files)
	}
	script, err := os.ReadFile(files[i].from)
	if err != nil || !strings.Contains(string(script), " initrd=initramfs.img maker=1 a=0 quiet a=1 ||") {
		t.Errorf("%v: %s", err, script)
	}
}
