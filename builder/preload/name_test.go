package preload

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"localhost/garboard/pause:1", ""},
		{"docker.io/library/nginx:1.27", ""},
		{"registry.k8s.io/pause:3.10.1", ""},
		{"10.0.0.1:5000/a/b__c:v1.2-rc_1", ""},
		{"Registry.Example:80/x:Y", ""},
		{"", "is empty"},
		{"nginx", `names no registry; did you mean "docker.io/library/nginx:latest"?`},
		{"nginx:1.27", `did you mean "docker.io/library/nginx:1.27"?`},
		{"library/nginx:1", `did you mean "docker.io/library/nginx:1"?`},
		{"garboard/hello", `did you mean "docker.io/garboard/hello:latest"?`},
		{"docker.io/nginx:1", `lacks the library/ that clients put in; did you mean "docker.io/library/nginx:1"?`},
		{"index.docker.io/library/nginx:1", `did you mean "docker.io/library/nginx:1"?`},
		{"localhost/garboard/pause", `has no tag; did you mean "localhost/garboard/pause:latest"?`},
		{"localhost:5000/pause", `has no tag; did you mean "localhost:5000/pause:latest"?`},
		{"localhost/Garboard/pause:1", `did you mean "localhost/garboard/pause:1"?`},
		{"localhost/a:1@sha256:" + strings.Repeat("0", 64), `has a digest; the store computes digests itself; did you mean "localhost/a:1"?`},
		{"localhost//a:1", `malformed repository part ""`},
		{"localhost/a b:1", `malformed repository part "a b"`},
		{"localhost/a:" + strings.Repeat("x", 129), "malformed tag"},
		{"local_host.x/a:1", `malformed registry "local_host.x"`},
		{"localhost/" + strings.Repeat("a", 250) + ":1", "longer than 255"},
	} {
		err := CheckName(tt.name)
		if tt.want == "" && err != nil {
			t.Errorf("%q: %v", tt.name, err)
		}
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"nginx", "localhost/garboard/pause:1", "a@b", "docker.io/x", ":", "/", "localhost:5000/A:x/y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := CheckName(s)
		if err == nil {
			if domain, rest, ok := strings.Cut(s, "/"); !ok || domain == "" || !strings.Contains(rest, ":") || strings.ContainsAny(s, "@ \n") {
				t.Errorf("%q is taken for a full name", s)
			}
			return
		}
		if _, p, ok := strings.Cut(err.Error(), "; did you mean \""); ok {
			if p = strings.TrimSuffix(p, "\"?"); CheckName(p) != nil {
				t.Errorf("%q: the proposal %q is no full name either", s, p)
			}
		}
	})
}
