package recipe

import (
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"": 0, "1MiB": 1 << 20, "512MiB": 512 << 20, "4GiB": 4 << 30, "2TiB": 2 << 40} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"4", "4G", "4 GiB", "0MiB", "-1GiB", "+1GiB", "1.5GiB", "GiB", "9999999TiB", "8388608TiB", "4gib", "4GiBMiB"} {
		if got, err := ParseSize(in); err == nil || !strings.Contains(err.Error(), "is not a size") {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
}

func TestCheckDisk(t *testing.T) {
	for _, tt := range []struct{ yaml, fault string }{
		{"outputs: [raw]\ndisk: {size: 8GiB, root: memory, content: [{path: x, reason: y}]}", ""},
		{"outputs: [iso9661]", `outputs[0]: "iso9661" is not known; known: initramfs, uki, raw, qcow2`},
		{"outputs: []", "outputs is empty; known: initramfs, uki"},
		{"outputs: [raw]\ndisk: {size: 8GB}", `disk.size: "8GB" is not a size`},
		{"outputs: [raw]\ndisk: {root: floppy}", `disk.root: "floppy" is not known; known: memory, disk`},
		{"outputs: [raw]\ndisk: {content: [{path: x}]}", "disk.content[0] (dir/x): path and reason are needed"},
		{"outputs: [raw]\ndisk: {content: [{path: x, reason: y, target: var}]}", `disk.content[0] (dir/x).target: "var" is not a clean absolute path`},
		{"outputs: [raw]\ndisk: {siez: 8GiB}", `did you mean "size"?`},
	} {
		r, err := Parse("dir/r.yaml", []byte("name: r\nkernel: {package: k}\n"+tt.yaml))
		if err == nil {
			err = r.Check()
		}
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%s: %v, want %q", tt.yaml, err, tt.fault)
		}
		if err == nil && r.Disk.Content[0].Path != "dir/x" {
			t.Errorf("content is looked for at %s", r.Disk.Content[0].Path)
		}
	}
}
