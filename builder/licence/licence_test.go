package licence

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/github/go-spdx/v2/spdxexp"
)

const dep5 = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"

func TestDebian(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string
		source     Source
	}{
		{"one", dep5 + "\nFiles: *\nCopyright: x\nLicense: Expat\n text\n", "MIT", MachineReadable},
		{"text of a licence alone says nothing of files", dep5 + "\nFiles: *\nLicense: ISC\n\nLicense: GPL-3\n text\n", "ISC", MachineReadable},
		{"the packaging is not shipped", dep5 + "\nFiles: *\nLicense: ISC\n\nFiles: debian/*\n debian/rules\nLicense: GPL-3+\n", "ISC", MachineReadable},
		{"the header's licence counts", dep5 + "License: zlib\n\nFiles: debian/*\nLicense: GPL-3\n", "Zlib", MachineReadable},
		{"choice", dep5 + "\nFiles: *\nLicense: BSD-3-clause or GPL-2+\n\nFiles: b\nLicense: LGPL-2.1\n",
			"(BSD-3-Clause OR GPL-2.0-or-later) AND LGPL-2.1-only", MachineReadable},
		{"and binds stronger", dep5 + "\nFiles: *\nLicense: GPL-1+ or Artistic and BSD-3-clause\n", "GPL-1.0-or-later OR (Artistic-1.0-Perl AND BSD-3-Clause)", MachineReadable},
		{"but not after a comma", dep5 + "\nFiles: *\nLicense: GPL-1+ or Artistic, and BSD-3-clause\n", "BSD-3-Clause AND (GPL-1.0-or-later OR Artistic-1.0-Perl)", MachineReadable},
		{"exceptions", dep5 + "\nFiles: *\nLicense: GPL-3+ with Bison exception\n\nFiles: y\nLicense: GPL-2+ with Odd exception\n",
			"GPL-3.0-or-later WITH Bison-exception-2.2 AND LicenseRef-GPL-2-with-Odd-exception", MachineReadable},
		{"a name that SPDX lacks", dep5 + "\nFiles: *\nLicense: BSD-like (Spencer)\n", "LicenseRef-BSD-like-Spencer", MachineReadable},
		{"text that refers", "This is foo.\n\nOn Debian systems see /usr/share/common-licenses/GPL-2.\n", "GPL-2.0-only", FreeText},
		{"text that holds the words", "It was packaged by somebody.\n\n" + mit, "MIT", FreeText},
		{"nothing", "ask the author\n", "", Unknown},
		{"empty", "", "", Unknown},
	} {
		f := Debian([]byte(c.text))
		if f.Expression() != c.want || f.Source != c.source {
			t.Errorf("%s: %q from %q, want %q from %q", c.name, f.Expression(), f.Source, c.want, c.source)
		}
		if ok, bad := spdxexp.ValidateLicenses(f.Terms); !ok {
			t.Errorf("%s: no SPDX expression: %q", c.name, bad)
		}
	}
}

func TestCopyleft(t *testing.T) {
	for name, want := range map[string]bool{"GPL-2": true, "LGPL-2.1+": true, "MPL-2.0": true, "GPL": true, "Expat": false, "BSD-3-clause": false, "GPL-2+ with Odd exception": true} {
		if got := Debian([]byte(dep5 + "\nFiles: *\nLicense: " + name + "\n")).Copyleft(); got != want {
			t.Errorf("%s: copyleft %t, want %t", name, got, want)
		}
	}
}

func TestModule(t *testing.T) {
	apache, err := os.ReadFile(filepath.Join("..", "..", "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"one", map[string]string{"LICENSE": mit, "main.go": "package main"}, "MIT"},
		{"our own", map[string]string{"LICENSE": string(apache)}, "Apache-2.0"},
		{"two files", map[string]string{"LICENSE": string(apache), "LICENSE.mit": mit}, "Apache-2.0 AND MIT"},
		{"a notice adds nothing of its own", map[string]string{"LICENCE": mit, "NOTICE": "This product includes software of X."}, "MIT"},
		{"unknown terms are not passed over", map[string]string{"LICENSE": "You may not."}, "LicenseRef-LICENSE"},
		{"a licence below is somebody else's", map[string]string{"third_party/LICENSE": mit}, ""},
		{"code is no licence", map[string]string{"license.go": "package x", "COPYING.md": mit}, "MIT"},
	} {
		src := fstest.MapFS{}
		for n, s := range c.files {
			src[n] = &fstest.MapFile{Data: []byte(s)}
		}
		files, err := Files(src)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: files are in no order", c.name)
		}
		if got := Module(files).Expression(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzDebian(f *testing.F) {
	f.Add([]byte(dep5 + "\nFiles: *\nLicense: BSD-3-clause or GPL-2+, and ISC\n"))
	f.Add([]byte(dep5 + "\nFiles: *\nLicense: GPL-3+ with  exception\n or and\n"))
	f.Add([]byte("Files:\n\x00: | or or\n /usr/share/common-licenses/+"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := Debian(text)
		if ok, bad := spdxexp.ValidateLicenses(got.Terms); !ok {
			t.Errorf("no SPDX expression: %q", bad)
		}
	})
}

const mit = `Copyright (c) 2020 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
`
