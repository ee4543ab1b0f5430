package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"
	api "k8s.io/kubernetes/pkg/apis/core"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

func defaulted(t *testing.T, change func(*api.Pod), source string, isFile bool, node types.NodeName) *api.Pod {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	pod := &api.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "prod"},
		Spec: api.PodSpec{Containers: []api.Container{{
			Name: "web", Image: "web:1",
			Env: []api.EnvVar{{Name: "NODE", ValueFrom: &api.EnvVarSource{FieldRef: &api.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
		}}},
	}
	if change != nil {
		change(pod)
	}
	require.NoError(t, applyDefaults(logger, pod, source, isFile, node))
	return pod
}

func TestStaticPodUIDIsIndependentOfNodeName(t *testing.T) {
	const file = "/etc/kubernetes/manifests/web.yaml"
	first := defaulted(t, nil, file, true, "localhost")
	require.NotEmpty(t, first.UID)
	for _, node := range []types.NodeName{"localhost", "edge-7", "EDGE-7", "edge-7.example.com", ""} {
		pod := defaulted(t, nil, file, true, node)
		assert.Equal(t, first.UID, pod.UID, "UID on node %q", node)
		assert.Equal(t, string(first.UID), pod.Annotations[kubetypes.ConfigHashAnnotationKey], "config hash on node %q", node)
		// What upstream ties to the node stays tied to it.
		assert.Equal(t, "web-"+strings.ToLower(string(node)), pod.Name)
		assert.Equal(t, string(node), pod.Spec.NodeName)
	}
}

func TestStaticPodUIDStillTellsPodsApart(t *testing.T) {
	const file, node = "/etc/kubernetes/manifests/web.yaml", types.NodeName("edge-7")
	first := defaulted(t, nil, file, true, node)
	for name, other := range map[string]*api.Pod{
		"another file":    defaulted(t, nil, "/etc/kubernetes/manifests/web2.yaml", true, node),
		"from a URL":      defaulted(t, nil, file, false, node),
		"another image":   defaulted(t, func(p *api.Pod) { p.Spec.Containers[0].Image = "web:2" }, file, true, node),
		"another name":    defaulted(t, func(p *api.Pod) { p.Name = "web2" }, file, true, node),
		"another label":   defaulted(t, func(p *api.Pod) { p.Labels = map[string]string{"a": "b"} }, file, true, node),
		"named by itself": defaulted(t, func(p *api.Pod) { p.UID = "its-own" }, file, true, node),
	} {
		assert.NotEqual(t, first.UID, other.UID, name)
	}
	own := defaulted(t, func(p *api.Pod) { p.UID = "its-own" }, file, true, node)
	assert.Equal(t, types.UID("its-own"), own.UID)
}
