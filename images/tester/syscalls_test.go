package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Programs of libseccomp for cri-o's profile agree with themselves and not with
// those for other capabilities; a node whose containers have none proves nothing.
func TestSameFilter(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile("../../pod/seccomp/testdata/libseccomp/default-amd64-" + name + ".bpf")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	none, all := read("none"), read("all")
	for _, c := range []struct {
		name       string
		table      string
		containers map[string][]byte
		want       string
	}{
		{"the same", "none", map[string][]byte{"a": none, "b": nil, "c": none}, ""},
		{"one is another", "none", map[string][]byte{"a": none, "b": all}, "the agent's filter and "},
		{"cut off", "none", map[string][]byte{"a": none[:12]}, "4 bytes behind the last instruction"},
		{"no filters", "none", map[string][]byte{"a": nil}, "nothing was compared"},
		{"no containers", "none", nil, "nothing was compared"},
		{"agent without", "", map[string][]byte{"a": none}, "the agent has no seccomp program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := t.TempDir()
			write := func(path string, b []byte) {
				path = filepath.Join(host, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			service := `{"name": "node-exporter-exporter"}`
			if c.table != "" {
				service = fmt.Sprintf(`{"name": "node-exporter-exporter", "seccomp": {"program": %q}}`, base64.StdEncoding.EncodeToString(read(c.table)))
			}
			write("usr/lib/garboard/node.json", []byte(`{"services": [{"name": "crio"}, `+service+`]}`))
			for name, b := range c.containers {
				write("run/crun/"+name+"/seccomp.bpf", b)
			}
			g := &guest{host: host, say: t.Logf}
			err := g.checkSameFilter("amd64")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
