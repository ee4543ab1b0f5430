package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"garboard.local/builder/source/debian/debiantest"
)

func TestSources(t *testing.T) {
	r := debiantest.New(t, hello())
	r.Sources = []debiantest.Source{
		{Name: "hi", Version: "1:1.2-2", Files: map[string]string{"hi_1.2-2.dsc": "dsc", "hi_1.2.orig.tar.xz": "tar", "hi_1.2-2.debian.tar.xz": "debian"}},
		{Name: "other", Version: "1", Files: map[string]string{"other_1.dsc": "x"}},
	}
	r.Publish()
	a := testArchive(t, r)
	ctx := context.Background()
	got, err := a.Sources(ctx, []SourceID{{"hi", "1:1.2-2"}})
	if err != nil || len(got) != 1 || len(got[0].Files) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, f := range got[0].Files {
		p, err := a.FetchSource(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(p); err != nil || string(b) != r.Sources[0].Files[f.Name] {
			t.Errorf("%s holds %q, %v", f.Name, b, err)
		}
	}
	// One that is superseded is named with the place that has it; the other is found.
	got, err = a.Sources(ctx, []SourceID{{"hi", "1:1.2-1"}, {"other", "1"}})
	var gone *NoSourceError
	if !errors.As(err, &gone) || len(got) != 1 || !strings.Contains(err.Error(), "snapshot archive only: hi 1:1.2-1") {
		t.Errorf("%+v, %v", got, err)
	}
	// A tarball that is not the one of the index.
	b := testArchive(t, r)
	for p := range r.Files {
		if strings.HasSuffix(p, ".orig.tar.xz") {
			r.Files[p] = []byte("rat")
		}
	}
	got, err = b.Sources(ctx, []SourceID{{"hi", "1:1.2-2"}})
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, f := range got[0].Files {
		if _, err := b.FetchSource(ctx, f); err != nil {
			bad++
		}
	}
	if bad != 1 {
		t.Errorf("%d files are refused, want the one that was tampered with", bad)
	}
}

func TestBuiltUsing(t *testing.T) {
	for field, want := range map[string]string{
		"": "[]", "linux (= 6.12.118-1)": "[linux 6.12.118-1]", "a (= 1), b (= 2:3-4)": "[a 1 b 2:3-4]",
		"linux (>= 6)": "error", "linux": "error", "((": "error",
	} {
		got, err := parseBuiltUsing(field)
		if s := fmt.Sprint(got); err == nil && s != want || err != nil && want != "error" {
			t.Errorf("%q: %s, %v; want %s", field, s, err, want)
		}
	}
}

func FuzzSources(f *testing.F) {
	sum := strings.Repeat("ab", 32)
	f.Add([]byte("Package: hi\nVersion: 1\nDirectory: pool/main/h/hi\nChecksums-Sha256:\n " + sum + " 3 hi_1.dsc\n " + sum + " 3 hi_1.tar.xz\n"))
	f.Add([]byte("Package: hi\nVersion: 1\nDirectory: ../..\nChecksums-Sha256:\n " + sum + " 3 ../hi_1.dsc\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseSources(bytes.NewReader(b), BaseArchive, map[SourceID]bool{{"hi", "1"}: true})
		if err != nil {
			return
		}
		for _, s := range got {
			for _, x := range s.Files {
				if strings.Contains(x.Name, "/") || strings.Contains(x.path, "..") && !strings.Contains(x.Name, "..") || !strings.HasPrefix(x.path, "pool/") {
					t.Errorf("%+v leads elsewhere", x)
				}
			}
		}
	})
}
