package release

import (
	"strings"
	"testing"

	"garboard.local/builder/report"
)

func TestSourcesText(t *testing.T) {
	m := &report.Manifest{KernelImage: &report.KernelImage{Name: "linuxkit/kernel:6", Digest: "sha256:ab", Version: "6.12.52"}, Programs: []report.Program{{Name: "kubelet", Modules: []report.Module{
		{Path: "example.org/mpl", Version: "v1.0.0", Licence: "MPL-2.0"},
		{Path: "example.org/changed", Version: "v1.0.0", Licence: "MIT AND MPL-2.0", Patched: true},
		{Path: "example.org/mit", Version: "v1.0.0", Licence: "MIT"},
		{Path: "garboard.local", Licence: "Apache-2.0"},
	}}}}
	got := string(SourcesText([]Source{{"crun", "1.21-1", []string{"crun", "libcrun"}}}, []*report.Manifest{m, m}))
	for _, want := range []string{
		"\ncrun 1.21-1 (crun, libcrun)\n",
		"\nexample.org/mpl@v1.0.0 (MPL-2.0)\n",
		"\nexample.org/changed@v1.0.0 (MIT AND MPL-2.0), changed: ",
		"garboard sources *.manifest.json",
		"\nlinuxkit/kernel:6 (Linux 6.12.52) sha256:ab\n",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, got)
		}
	}
	if strings.Contains(got, "example.org/mit") || strings.Contains(got, "garboard.local") {
		t.Errorf("what needs no offer is listed:\n%s", got)
	}
}
