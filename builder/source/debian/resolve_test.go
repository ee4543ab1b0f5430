package debian

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"garboard.local/builder/source/debian/debiantest"
)

// parseIndex makes an index of short descriptions, one package a line:
// name version; Field: value; Field: value
func parseIndex(t *testing.T, text string) *index {
	t.Helper()
	var recs []record
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), ";")
		f := strings.Fields(parts[0])
		if len(f) != 2 {
			continue
		}
		v := map[string]string{"Package": f[0], "Version": f[1], "Architecture": "amd64", "Size": "1",
			"Filename": "pool/main/" + f[0] + "_" + f[1] + ".deb", "SHA256": debiantest.Sum([]byte(strings.TrimSpace(parts[0])))}
		for _, p := range parts[1:] {
			k, val, _ := strings.Cut(p, ":")
			v[strings.TrimSpace(k)] = strings.TrimSpace(val)
		}
		r, err := newRecord(v, BaseArchive)
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, r)
	}
	return newIndex("trixie/main amd64", recs)
}

// show prints packages as "name version[depends]".
func show(ps []Package) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s %s%v", p.Name, p.Version, p.Depends))
	}
	return strings.Join(out, ", ")
}

func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		name, index, names, exclude string
		want, wantErr               string
	}{
		{name: "depends and pre-depends, not recommends",
			index: "a 1; Depends: b; Pre-Depends: c; Recommends: d\nb 1\nc 1\nd 1",
			names: "a", want: "a 1[b c], b 1[], c 1[]"},
		{name: "highest version",
			index: "a 1; Depends: b\nb 1.9\nb 1.10\nb 1.10~rc1",
			names: "a", want: "a 1[b], b 1.10[]"},
		{name: "a cycle",
			index: "a 1; Depends: b\nb 1; Depends: a",
			names: "b a a", want: "a 1[b], b 1[a]"},
		{name: "first alternative",
			index: "a 1; Depends: x | b | c\nb 1\nc 1",
			names: "a", want: "a 1[b], b 1[]"},
		{name: "alternative that is there already",
			index: "a 1; Depends: b | c\nb 1\nc 1",
			names: "a c", want: "a 1[c], c 1[]"},
		{name: "alternative by version",
			index: "a 1; Depends: b (>= 2) | c\nb 1\nc 1",
			names: "a", want: "a 1[c], c 1[]"},
		{name: "every operator",
			index: "a 1; Depends: b (>= 1), c (<= 1), d (>> 0), e (<< 2), f (= 1)\nb 1\nc 1\nd 1\ne 1\nf 1",
			names: "a", want: "a 1[b c d e f], b 1[], c 1[], d 1[], e 1[], f 1[]"},
		{name: "an older version for an exact relation",
			index: "a 1; Depends: b (= 1)\nb 1\nb 2",
			names: "a", want: "a 1[b], b 1[]"},
		{name: "a relation that comes to light after the choice",
			index: "a 1; Depends: b, c\nb 1\nb 2\nc 1; Depends: b (<< 2)",
			names: "a", want: "a 1[b c], b 1[], c 1[b]"},
		{name: "contradiction",
			index: "a 1; Depends: b (>= 2), c\nb 1\nb 2\nc 1; Depends: b (<< 2)",
			names: "a", wantErr: `a 1 (amd64) depends on "b (>= 2)", which nothing in trixie/main amd64 satisfies (there: b 2; b 1; c needs b (<< 2))`},
		{name: "unsatisfied version",
			index: "a 1; Depends: b (>= 2)\nb 1",
			names: "a", wantErr: `package a 1 (amd64) depends on "b (>= 2)"`},
		{name: "virtual, by priority then name",
			index: "a 1; Depends: awk\ngawk 1; Provides: awk; Priority: optional\nmawk 1; Provides: awk; Priority: required\nbawk 1; Provides: awk; Priority: optional",
			names: "a", want: "a 1[mawk], mawk 1[]"},
		{name: "virtual, provider there already",
			index: "a 1; Depends: awk\ngawk 1; Provides: awk\nmawk 1; Provides: x, awk; Priority: required\nz 1; Depends: gawk",
			names: "a gawk", want: "a 1[gawk], gawk 1[]"},
		{name: "real before virtual",
			index: "a 1; Depends: awk\nawk 1\nmawk 1; Provides: awk; Priority: required",
			names: "a", want: "a 1[awk], awk 1[]"},
		{name: "versioned provides",
			index: "a 1; Depends: abi (>= 2)\np 1; Provides: abi\nq 1; Provides: abi (= 1)\nr 1; Provides: abi (= 3)",
			names: "a", want: "a 1[r], r 1[]"},
		{name: "a name that is only part of a provided one",
			index: "a 1; Depends: aw\nmawk 1; Provides: awk",
			names: "a", wantErr: `depends on "aw"`},
		{name: "multiarch qualifier",
			index: "a 1; Depends: b:any, c:i386 | d\nb 1\nc 1\nd 1",
			names: "a", want: "a 1[b d], b 1[], d 1[]"},
		{name: "excluded",
			index: "a 1; Depends: b, c | z, v\nb 1; Depends: x\nc 1; Depends: y\nw 1; Provides: v",
			names: "a", exclude: "b c v", want: "a 1[]"},
		{name: "excluded but asked for",
			index: "a 1; Depends: b\nb 1",
			names: "a b", exclude: "b", want: "a 1[b], b 1[]"},
		{name: "typing error",
			index: "crun 1\ncron 1\nconmon 1", names: "crnu",
			wantErr: `package "crnu" is not in trixie/main amd64; did you mean "crun"?`},
		{name: "far from everything",
			index: "crun 1", names: "systemd",
			wantErr: `package "systemd" is not in trixie/main amd64`},
		{name: "every unknown name is told",
			index: "crun 1", names: "crum xyzzy", wantErr: `"xyzzy" is not`},
		{name: "virtual names are not packages",
			index: "mawk 1; Provides: awk\ngawk 1; Provides: awk", names: "awk",
			wantErr: `package "awk" is virtual in trixie/main amd64: name one of its providers: gawk, mawk`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := Request{Arch: "amd64", Names: strings.Fields(tc.names), Exclude: strings.Fields(tc.exclude)}
			for range 3 { // map order must not show
				ps, err := parseIndex(t, tc.index).resolve(q)
				if tc.wantErr != "" {
					wantError(t, err, tc.wantErr)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := show(ps); got != tc.want {
					t.Fatalf("got  %s\nwant %s", got, tc.want)
				}
			}
		})
	}
}

func TestResolveKeeps(t *testing.T) {
	for _, tc := range []struct {
		name, names, old, new string
		gone                  string // the name that is not kept
		want                  string
	}{
		{name: "the others stay, though newer ones are there", names: "a",
			old: "a 1; Depends: b, c\nb 1\nc 1", new: "a 1; Depends: b, c\nb 1\nb 2\nc 2", gone: "c",
			want: "a 1[b c], b 1[], c 2[]"},
		{name: "also those that no index lists", names: "a",
			old: "a 1; Depends: b, c\nb 1\nc 1", new: "a 2; Depends: b, c\nb 2\nc 2", gone: "c",
			want: "a 1[b c], b 1[], c 2[]"},
		{name: "what the new one needs newer is renewed", names: "a c",
			old: "a 1; Depends: b, c\nb 1\nc 1", new: "a 1; Depends: b, c\nb 2; Depends: d\nc 2; Depends: b (>= 2)\nd 1", gone: "c",
			want: "a 1[b c], b 2[d], c 2[b], d 1[]"},
		{name: "a kept package whose exact relation broke is renewed", names: "a",
			old: "a 1; Depends: b (= 1)\nb 1", new: "a 1; Depends: b (= 1)\na 2; Depends: b (= 2)\nb 2", gone: "b",
			want: "a 2[b], b 2[]"},
		{name: "a kept package whose demand blocks the new one is renewed", names: "a c",
			old: "a 1; Depends: b (<< 2)\nb 1\nc 1; Depends: b", new: "a 1; Depends: b (<< 2)\na 2; Depends: b\nb 1\nb 2\nc 2; Depends: b (>= 2)", gone: "c",
			want: "a 2[b], b 2[], c 2[b]"},
		{name: "a renamed dependency takes its dependants along", names: "a",
			old: "a 1; Depends: image-1\nimage-1 1", new: "a 2; Depends: image-2\nimage-2 2", gone: "image-1",
			want: "a 2[image-2], image-2 2[]"},
		{name: "what nothing needs falls out", names: "a",
			old: "a 1; Depends: b\nb 1; Depends: c\nc 1", new: "a 1; Depends: b\nb 2\nc 1", gone: "b",
			want: "a 1[b], b 2[]"},
		{name: "the chosen provider stays", names: "a",
			old: "a 1; Depends: v, x\nz 1; Provides: v\nx 1", new: "a 2; Depends: v, x\nb 1; Provides: v\nz 2; Provides: v\nx 2", gone: "a",
			want: "a 2[x z], x 1[], z 1[]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			oldIndex := parseIndex(t, tc.old)
			names := strings.Fields(tc.names)
			// The lock that was written from the old index.
			lock, err := oldIndex.resolve(Request{Arch: "amd64", Names: names})
			if err != nil {
				t.Fatal(err)
			}
			var keep []Package
			for _, p := range lock {
				if p.Name != tc.gone {
					keep = append(keep, p)
				}
			}
			ps, err := parseIndex(t, tc.new).resolve(Request{Arch: "amd64", Names: names, Keep: keep})
			if err != nil {
				t.Fatal(err)
			}
			if got := show(ps); got != tc.want {
				t.Fatalf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Firmware that is not free lies in a component of its own, which not every
// archive has; it comes into a lock by its name, and never in place of what is in main.
func TestFirmwareComponent(t *testing.T) {
	r := debiantest.New(t, libc(), debiantest.Deb{Name: "firmware-x", Version: "20250410-2", Arch: "all", Component: "non-free-firmware"},
		debiantest.Deb{Name: "amd64-microcode", Version: "3", Component: "non-free-firmware"})
	a := testArchive(t, r)
	ps := mustResolve(t, a, "libc6", "firmware-x", "amd64-microcode")
	var files []string
	for _, p := range ps {
		files = append(files, p.File)
	}
	want := []string{"pool/non-free-firmware/a/amd64-microcode/amd64-microcode_3_amd64.deb",
		"pool/non-free-firmware/f/firmware-x/firmware-x_20250410-2_all.deb", "pool/main/l/libc6/libc6_2.41-1_amd64.deb"}
	if !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	if err := a.FetchAll(t.Context(), ps); err != nil {
		t.Error(err)
	}
	_, err := testArchive(t, debiantest.New(t, libc())).Resolve(t.Context(), "amd64", []string{"firmware-x"})
	wantError(t, err, `"firmware-x" is not in trixie`)
}
