package debian

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDefaultMirrors(t *testing.T) {
	public := PublicMirrors()
	for _, tc := range []struct {
		name    string
		flag    []string
		env     string
		apt     map[string]string // files below the apt directory
		want    Mirrors
		wantErr string
	}{
		{name: "nothing configured", want: public},
		{name: "flag before all", flag: []string{"http://a.example/debian/"}, env: "http://b.example/debian",
			apt:  map[string]string{"sources.list": "deb http://c.example/debian trixie main\n"},
			want: Mirrors{[]string{"http://a.example/debian"}, []string{"http://a.example/debian-security"}}},
		{name: "environment before apt", env: " https://b.example/debian,http://c.example:8080/x/debian\nhttp://b.example/debian-security ",
			apt:  map[string]string{"sources.list": "deb http://c.example/debian trixie main\n"},
			want: Mirrors{[]string{"https://b.example/debian", "http://c.example:8080/x/debian"}, []string{"http://b.example/debian-security"}}},
		{name: "several flags", flag: []string{"http://a.example/debian", "http://b.example/debian", "http://a.example/debian"},
			want: Mirrors{[]string{"http://a.example/debian", "http://b.example/debian"}, []string{"http://a.example/debian-security", "http://b.example/debian-security"}}},
		{name: "snapshot", flag: []string{"http://s.example/archive/debian/20261101T000000Z", "http://s.example/archive/debian-security/20261101T000000Z/"},
			want: Mirrors{[]string{"http://s.example/archive/debian/20261101T000000Z"}, []string{"http://s.example/archive/debian-security/20261101T000000Z"}}},
		{name: "no scheme", flag: []string{"a.example/debian"}, wantErr: `--mirror: "a.example/debian" is not an http or https URL`},
		{name: "file", env: "file:///srv/debian", wantErr: "GARBOARD_MIRROR: "},
		{name: "no security", flag: []string{"http://a.example/deb"}, wantErr: "add one that ends in /debian-security"},
		{name: "only security", flag: []string{"http://a.example/debian-security"}, wantErr: "add one that ends in /debian"},

		{name: "deb822", apt: map[string]string{"sources.list.d/debian.sources": `Types: deb deb-src
URIs: http://m.example/debian http://n.example/debian/
Suites: bookworm bookworm-updates
# a comment
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

types: deb
uris: http://m.example/debian-security
suites: bookworm-security
components: main
`}, want: Mirrors{[]string{"http://m.example/debian", "http://n.example/debian"}, []string{"http://m.example/debian-security"}}},
		{name: "one line", apt: map[string]string{"sources.list": `# deb http://old.example/debian trixie main
deb [ arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg ] http://m.example/debian trixie main contrib # home
deb-src http://src.example/debian trixie main
deb http://m.example/debian-security trixie-security main
`}, want: Mirrors{[]string{"http://m.example/debian"}, []string{"http://m.example/debian-security"}}},
		{name: "security derived", apt: map[string]string{"sources.list.d/x.list": "deb http://m.example/debian stable main\n"},
			want: Mirrors{[]string{"http://m.example/debian"}, []string{"http://m.example/debian-security"}}},
		{name: "old security suite", apt: map[string]string{"sources.list": "deb http://m.example/debian buster main\ndeb http://n.example/debian-security buster/updates main\n"},
			want: Mirrors{[]string{"http://m.example/debian"}, []string{"http://n.example/debian-security"}}},
		{name: "disabled", apt: map[string]string{"sources.list.d/x.sources": "Enabled: no\nTypes: deb\nURIs: http://m.example/debian\nSuites: trixie\nComponents: main\n"}, want: public},
		{name: "other file names", apt: map[string]string{"sources.list.d/x.list.save": "deb http://m.example/debian trixie main\n"}, want: public},
		{name: "Ubuntu", apt: map[string]string{"sources.list": "deb http://u.example/ubuntu noble main\n"}, want: public},
		{name: "Ubuntu's suite on a path like ours", apt: map[string]string{"sources.list": "deb http://u.example/debian noble main\n"}, want: public},
		{name: "third party by component", apt: map[string]string{"sources.list": "deb http://d.example/linux/debian trixie stable\n"}, want: public},
		{name: "third party by key", apt: map[string]string{"sources.list.d/x.list": "deb [signed-by=/etc/apt/keyrings/x.gpg] http://d.example/debian trixie main\n"}, want: public},
		{name: "third party by key in the file", apt: map[string]string{"sources.list.d/x.sources": "Types: deb\nURIs: http://d.example/debian\nSuites: trixie\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n"}, want: public},
		{name: "third party by path", apt: map[string]string{"sources.list": "deb http://d.example/debian-stuff trixie main\n"}, want: public},
		{name: "media and other transports", apt: map[string]string{"sources.list": "deb cdrom:[Debian]/ trixie main\ndeb file:/srv/debian trixie main\ndeb mirror+file:/etc/m/debian trixie main\n"}, want: public},
		{name: "only security in apt", apt: map[string]string{"sources.list": "deb http://m.example/debian-security trixie-security main\n"}, want: public},
		{name: "garbage", apt: map[string]string{"sources.list": "deb [ http://\n\x00\n", "sources.list.d/x.sources": "no colon\n"}, want: public},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tc.apt {
				p := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			m, err := DefaultMirrors(tc.flag, tc.env, dir)
			if tc.wantErr != "" {
				wantError(t, err, tc.wantErr)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(m.Base, tc.want.Base) || !slices.Equal(m.Security, tc.want.Security) {
				t.Errorf("got  %v\nwant %v", m, tc.want)
			}
		})
	}
}

func FuzzAptSources(f *testing.F) {
	f.Add([]byte("deb [arch=amd64] http://m.example/debian trixie main # x\n"))
	f.Add([]byte("Types: deb\nURIs: http://m.example/debian\nSuites: trixie\nComponents: main\nSigned-By:\n x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range append(parseOneLine(b), parseDeb822(b)...) {
			for _, u := range s.debianURIs() {
				if _, err := userMirrors("test", []string{u, "http://x.example/debian", "http://x.example/debian-security"}); err != nil {
					t.Errorf("%q: %v", u, err)
				}
			}
		}
	})
}
