package pod_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"garboard.local/init/table"
	"garboard.local/pod"
	"garboard.local/pod/manifest"
	"garboard.local/pod/podtest"
)

func file(target pod.Target) string { return "testdata/everything-" + string(target) + ".yaml" }

func TestOtherValuesAreRefused(t *testing.T) { podtest.OtherValuesAreRefused(t, file) }

// plans is everything that a translation makes.
func plans(docs []*manifest.Document, target pod.Target) string {
	var b strings.Builder
	var all []*pod.Plan
	for _, d := range docs {
		if d.Pod == nil {
			continue
		}
		p, _, err := pod.Translate(d, pod.Options{Target: target, Objects: docs, NodeIP: "192.0.2.1"})
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		all = append(all, p)
	}
	if target == pod.Init && b.Len() == 0 {
		services, err := pod.Table(all)
		if err != nil {
			return err.Error()
		}
		js, err := pod.JSON(&table.Table{Version: 1, Services: services.Services, Volumes: services.Volumes})
		files, _ := json.MarshalIndent(services.Files, "", " ")
		return fmt.Sprint(string(js), err, string(files))
	}
	for _, p := range all {
		p.Document = nil
		js, err := json.MarshalIndent(p, "", " ")
		fmt.Fprintln(&b, string(js), err)
	}
	return b.String()
}

func TestSupportedFieldsHaveAnEffect(t *testing.T) {
	for _, target := range []pod.Target{pod.Init, pod.Systemd} {
		t.Run(string(target), func(t *testing.T) {
			podtest.Effects(t, file(target), target, func(docs []*manifest.Document) string { return plans(docs, target) })
		})
	}
}
