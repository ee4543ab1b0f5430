package pod

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"garboard.local/init/table"
)

const (
	// NodePodPath is where the kubelet finds the manifest that NodePod makes.
	NodePodPath = "/etc/kubernetes/manifests/node.yaml"

	nodePodHeader = "# Made by garboard build from the recipe's services; see docs/init.md, \"The node pod\".\n"
	initLog       = "init" // PID 1's own log and container

	nobody = 65534
	adm    = 4 // group of the files, see package init/logs

	// systemNodeCritical is the value of the priority class of that name. A
	// kubelet that stands alone has nobody to look it up for it, and with it the
	// pod is among the last to end.
	systemNodeCritical = 2000001000
)

// NodePod makes the manifest of the static pod "node": one container for each
// service and for PID 1, whose log is that service's log. image is that of
// images/nodelogs.
func NodePod(image string, services []table.Service) ([]byte, error) {
	yes, no := true, false
	uid, gid, grace, priority := int64(nobody), int64(adm), int64(2), int32(systemNodeCritical)
	dir := corev1.HostPathDirectory
	p := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "node", Namespace: "kube-system",
			Labels: map[string]string{"app.kubernetes.io/name": "node-logs", "app.kubernetes.io/part-of": "garboard"}},
		Spec: corev1.PodSpec{
			// Its containers open no socket; with a network of its own the pod would
			// wait for a CNI plugin, and its logs are what explains why there is none.
			HostNetwork:                   true,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			TerminationGracePeriodSeconds: &grace,
			PriorityClassName:             "system-node-critical",
			Priority:                      &priority,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: &uid, RunAsGroup: &gid, RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{
				{Name: "logs", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log/garboard", Type: &dir}}},
				{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	names := []string{}
	for _, s := range services {
		if s.Name == initLog {
			return nil, fmt.Errorf("service %q: that name is PID 1's own, among the logs and in the node pod; give the service another", s.Name)
		}
		names = append(names, s.Name)
	}
	for _, name := range append(names, initLog) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: name, Image: image, ImagePullPolicy: corev1.PullNever, Args: []string{name},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("8Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "logs", MountPath: "/logs", ReadOnly: true},
				{Name: "state", MountPath: "/state"},
			},
		})
	}
	return podYAML(p)
}

// podYAML is the YAML of a pod, without the fields that only a server fills.
func podYAML(p corev1.Pod) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	delete(m, "status")
	if meta, ok := m["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	y, err := yaml.Marshal(m)
	return append([]byte(nodePodHeader), y...), err
}
