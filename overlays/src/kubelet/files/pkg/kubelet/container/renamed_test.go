package container

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestPodsFindRenamed(t *testing.T) {
	pods := Pods{
		{ID: "1", Name: "etcd-old", Namespace: "kube-system"},
		{ID: "2", Name: "web", Namespace: "default"},
	}
	known := func(name string) (types.UID, bool) {
		uid, ok := map[string]types.UID{"etcd-new_kube-system": "1", "gone-new_kube-system": "9", "web_default": "1"}[name]
		return uid, ok
	}
	for _, tt := range []struct {
		name, fullName string
		uid            types.UID
		want           types.UID
	}{
		{"by its name", "web_default", "", "2"}, // also where the UID says something else
		{"by its UID", "", "2", "2"},
		{"made under another name of the node", "etcd-new_kube-system", "", "1"},
		{"the kubelet knows it, the runtime does not", "gone-new_kube-system", "", ""},
		{"nobody knows it", "other_default", "", ""},
		{"neither name nor UID", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := pods.FindRenamed(tt.fullName, tt.uid, known); got.ID != tt.want {
				t.Errorf("got pod %q, want %q", got.ID, tt.want)
			}
		})
	}
}
