package systemd

import (
	"fmt"
	"strings"
	"testing"

	"garboard.local/pod"
	"garboard.local/pod/manifest"
	"garboard.local/pod/podtest"
)

// Whatever the mapping calls supported changes units or the files beside them.
func TestSupportedFieldsReachTheUnits(t *testing.T) {
	podtest.Effects(t, "../testdata/everything-systemd.yaml", pod.Systemd, func(docs []*manifest.Document) string {
		var b strings.Builder
		for _, d := range docs {
			if d.Pod == nil {
				continue
			}
			p, _, err := pod.Translate(d, pod.Options{Target: pod.Systemd, Objects: docs})
			if err != nil {
				return err.Error()
			}
			files, err := Units(p, Options{})
			if err != nil {
				return err.Error()
			}
			for _, f := range files {
				fmt.Fprintf(&b, "%s %o %v\n%s\n", f.Path, f.Mode, f.Group, f.Content)
			}
		}
		return b.String()
	})
}
