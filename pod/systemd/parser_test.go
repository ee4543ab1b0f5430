package systemd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/unit"

	"garboard.local/builder/source/debian"
	"garboard.local/pod"
)

// pieces are what random values are made of: everything that means something
// to systemd's parser or to a shell, and some of what does not.
var pieces = []string{
	"a", "B9", "_", " ", "  ", "\t", "\n", "\r", "%", "%%", "%h", "%n", "$", "$$", "${HOME}", "$PATH", "$(X)", ";", "\\;", `"`, `""`, `'`, `\`, `\\`, `\n`, `\x41`,
	"#", "=", ":", "::", "-", "+", "@", "!", "|", "~", "*", "é", "日本", "\u0085", "\u2028", "\u00a0", "\x01", "\x1b", "\x7f", "\ufeff", "`", "<", ">", "&", "{", "}", "[Service]", "\nExecStart=/bad",
}

func random(r *rand.Rand, n int, skip func(string) bool) string {
	var b strings.Builder
	for range r.IntN(n + 1) {
		if p := pieces[r.IntN(len(pieces))]; skip == nil || !skip(p) {
			b.WriteString(p)
		}
	}
	return b.String()
}

func control(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// unquote reads what systemd prints of a command line (quote_command_line).
func unquote(t *testing.T, s string) []string {
	t.Helper()
	var out []string
	for i := 0; i < len(s); i++ {
		var b strings.Builder
		if s[i] != '"' {
			for ; i < len(s) && s[i] != ' '; i++ {
				b.WriteByte(s[i])
			}
			out = append(out, b.String())
			continue
		}
		for i++; i < len(s) && s[i] != '"'; i++ {
			if s[i] != '\\' {
				b.WriteByte(s[i])
				continue
			}
			i++
			if c := strings.IndexByte(`abfnrtv`, s[i]); c >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v"[c])
			} else if s[i] >= '0' && s[i] <= '7' {
				n, err := strconv.ParseUint(s[i:i+3], 8, 8)
				if err != nil {
					t.Fatalf("%q: %v", s[i:], err)
				}
				b.WriteByte(byte(n))
				i += 2
			} else {
				b.WriteByte(s[i])
			}
		}
		out = append(out, b.String())
		i++
	}
	return out
}

// section is the part of systemd's dump between two marks.
func section(dump, begin string) string {
	_, rest, _ := strings.Cut(dump, begin)
	return rest
}

// Any argument, environment value and path goes through a unit file and
// systemd's own parser and comes out as it was.
func TestRoundTripThroughSystemd(t *testing.T) {
	tools := toolsRoot(t)
	if tools == "" {
		return
	}
	const rounds, width = 12, 40
	m := newMachine(t, tools)
	m.write("/opt/program", nil, 0o755)
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := pod.Service{Name: "c", Kind: pod.Container, Argv: []string{"/opt/program", ""}, Restart: "Always"}
		for range width {
			s.Argv = append(s.Argv, random(r, 8, nil))
		}
		s.Argv = append(s.Argv, ";", "%", "$HOME", strings.Repeat("x", 5000))
		for i := range width {
			s.Env = append(s.Env, pod.Setting{Name: fmt.Sprintf("V%d_", i), Value: random(r, 8, nil)})
		}
		for i := range width {
			path := "/p" + strings.ReplaceAll(random(r, 6, func(s string) bool { return control(s) }), "/", "") + fmt.Sprint(i)
			s.Mounts = append(s.Mounts, pod.Mount{Source: "/src" + path, Target: path, ReadOnly: i%2 == 0})
		}
		s.Dir = s.Mounts[0].Target
		s.ReadOnly = true
		plan := &pod.Plan{Namespace: "n", Name: "p", Services: []pod.Service{s}, Grace: 30, HostNetwork: true, HostIPC: true, HostPID: true}
		files, err := Units(plan, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var units []string
		for _, f := range files {
			m.write(f.Path, f.Content, 0o644)
		}
		units = append(units, UnitDir+"/pod-n-p-c.service")
		dump, complaint := m.verify([]string{"SYSTEMD_LOG_LEVEL=debug", "SYSTEMD_LOG_TARGET=null"}, units...)
		if complaint != "" {
			_, complaint = m.verify(nil, units...)
			t.Fatalf("seed %d: systemd-analyze verify: %s", seed, complaint)
		}
		dump = section(dump, "Unit pod-n-p-c.service:\n")
		if dump == "" {
			t.Fatalf("seed %d: no dump of the unit", seed)
		}
		_, line, _ := strings.Cut(dump, "\n\t\t\tCommand Line: ")
		line, _, _ = strings.Cut(line, "\n")
		if got := unquote(t, line); !slices.Equal(got, s.Argv) {
			t.Errorf("seed %d: %d words, want %d", seed, len(got), len(s.Argv))
			for i := range min(len(got), len(s.Argv)) {
				if got[i] != s.Argv[i] {
					t.Errorf("word %d is %q, want %q", i, got[i], s.Argv[i])
				}
			}
		}
		// The dump has values as they are, newlines included, so what is looked for
		// is each with its surroundings.
		for _, e := range s.Env {
			if want := "\n\t\tEnvironment: " + e.Name + "=" + e.Value + "\n\t\t"; !strings.Contains(dump, want) {
				t.Errorf("seed %d: the variable %q=%q has become something else", seed, e.Name, e.Value)
			}
		}
		for _, mount := range s.Mounts {
			kind := "BindPaths"
			if mount.ReadOnly {
				kind = "BindReadOnlyPaths"
			}
			if want := fmt.Sprintf("\n\t\t%s: %s:%s:rbind\n", kind, mount.Source, mount.Target); !strings.Contains(dump, want) {
				t.Errorf("seed %d: the mount of %q at %q has become something else", seed, mount.Source, mount.Target)
			}
		}
		if want := "\n\t\tWorkingDirectory: " + s.Dir + "\n"; !strings.Contains(dump, want) {
			t.Errorf("seed %d: the directory %q has become something else", seed, s.Dir)
		}
	}
}

// osRelease are the keys of os-release(5) that have specifiers. The file is read
// by the parser that reads EnvironmentFile=, and systemd-tmpfiles writes
// what it has read: so values are seen without running a service.
var osRelease = []struct{ key, specifier string }{{"ID", "%o"}, {"VERSION_ID", "%w"}, {"BUILD_ID", "%B"}, {"VARIANT_ID", "%W"}, {"IMAGE_ID", "%M"}, {"IMAGE_VERSION", "%A"}}

// Any secret goes through an environment file, and any path through tmpfiles.d.
func TestEnvironmentFileThroughSystemd(t *testing.T) {
	tools := toolsRoot(t)
	if tools == "" {
		return
	}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 6))
		dir := t.TempDir()
		var vars []pod.Setting
		for _, x := range osRelease {
			vars = append(vars, pod.Setting{Name: x.key, Value: "v" + random(r, 10, nil) + "v"})
		}
		w := &writer{plan: &pod.Plan{Namespace: "n", Name: "p"}}
		var conf strings.Builder
		for i, x := range osRelease {
			fmt.Fprintf(&conf, "f /out%d 0644 - - - %s\n", i, x.specifier)
		}
		var dirs []string
		for i := range 6 {
			d := fmt.Sprintf("/d%d%s", i, strings.ReplaceAll(random(r, 6, control), "/", ""))
			dirs = append(dirs, d)
			w.plan.Volumes = append(w.plan.Volumes, pod.Volume{Kind: pod.HostPath, Type: "DirectoryOrCreate", Source: d})
		}
		for path, content := range map[string]string{"etc/os-release": string(EnvironmentFile(vars)), "t.conf": conf.String(), "pod.conf": string(w.tmpfiles())} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := debian.Command(t.Context(), tools, "systemd-tmpfiles", "--root="+dir, "--create", filepath.Join(dir, "t.conf"), filepath.Join(dir, "pod.conf"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, out)
		}
		for i, v := range vars {
			if b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("out%d", i))); err != nil || string(b) != v.Value {
				t.Errorf("seed %d: %s is %q, want %q (%v)", seed, v.Name, b, v.Value, err)
			}
		}
		for _, d := range dirs {
			if fi, err := os.Stat(filepath.Join(dir, d)); err != nil || fi.Mode().Perm() != 0o755 {
				t.Errorf("seed %d: directory %q: %v", seed, d, err)
			}
		}
	}
}

// FuzzUnit: whatever the values are, go-systemd reads the unit back as it was
// written, one option for each line, and nothing of a value becomes an option.
func FuzzUnit(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
	}
	f.Add("\\\nx")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) || !utf8.ValidString(s) || len(s) > 500 {
			return
		}
		opts := []*unit.UnitOption{unit.NewUnitOption("Service", "ExecStart", command([]string{"/x", s})), unit.NewUnitOption("Service", "Environment", Word("A="+s))}
		got, err := unit.DeserializeOptions(unit.Serialize(opts))
		if err != nil || !unit.AllMatch(got, opts) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	})
}
