package pod

import (
	"fmt"
	"strings"
	"testing"

	"garboard.local/pod/manifest"
)

// What an API server refuses is refused here, at its line: one case for each rule, in
// the order of validate*.go. Both targets refuse it, whether or not they could do it.
func TestInvalidManifests(t *testing.T) {
	const longName = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" // 64
	for _, c := range []struct {
		metadata, spec, container string
		at, want                  string
	}{
		// Objects.
		{metadata: "labels: {'a b': c}", at: "metadata.labels.a b", want: "name part must consist of alphanumeric"},
		{metadata: "labels: {a: 'b c'}", at: "metadata.labels.a", want: "a valid label must be an empty string or"},
		{metadata: "labels: {a: " + longName + "}", at: "metadata.labels.a", want: "no more than 63"},
		{metadata: "labels: {'/a': b}", at: "metadata.labels./a", want: "prefix part must be non-empty"},
		{metadata: "labels: {'Ä': b}", at: "metadata.labels.Ä", want: "name part must consist of alphanumeric"},
		{metadata: "annotations: {'a/b/c': d}", at: "metadata.annotations.a/b/c", want: "a valid label key must consist of"},
		{metadata: "annotations: {a: '" + strings.Repeat("x", 256<<10) + "'}", at: "metadata.annotations", want: "longer than 262144 bytes"},
		{metadata: "finalizers: ['a b']", at: "metadata.finalizers[0]", want: "name part must consist of"},
		{metadata: "namespace: a.b", at: "metadata.namespace", want: "is not a name"},

		// The pod.
		{spec: "serviceAccountName: A", at: "spec.serviceAccountName", want: "counts on a token"},
		{spec: "serviceAccountName: A\n  automountServiceAccountToken: false", at: "spec.serviceAccountName", want: "RFC 1123 subdomain"},
		{spec: "nodeName: a_b", at: "spec.nodeName", want: "RFC 1123 subdomain"},
		{spec: "schedulerName: a b", at: "spec.schedulerName", want: "RFC 1123 subdomain"},
		{spec: "priorityClassName: A", at: "spec.priorityClassName", want: "RFC 1123 subdomain"},
		{spec: "imagePullSecrets: [{name: A}]", at: "spec.imagePullSecrets[0].name", want: "RFC 1123 subdomain"},
		{spec: "hostname: a.b", at: "spec.hostname", want: "must not contain dots"},
		{spec: "subdomain: a.b", at: "spec.subdomain", want: "must not contain dots"},
		{spec: "hostnameOverride: A", at: "spec.hostnameOverride", want: "RFC 1123 subdomain"},
		{spec: "hostnameOverride: " + longName + "a", at: "spec.hostnameOverride", want: "longer than the 64"},
		{spec: "hostnameOverride: a\n  hostNetwork: true", at: "spec.hostnameOverride", want: "cannot go with hostNetwork"},
		{spec: "restartPolicy: Often", at: "spec.restartPolicy", want: "is not one of Always"},
		{spec: "terminationGracePeriodSeconds: -1", at: "spec.terminationGracePeriodSeconds", want: "is not between 0"},
		{spec: "restartPolicy: Never\n  activeDeadlineSeconds: 0", at: "spec.activeDeadlineSeconds", want: "is not above 0"},
		{spec: "hostPID: true\n  shareProcessNamespace: true", at: "spec.shareProcessNamespace", want: "cannot go with hostPID"},
		{spec: "preemptionPolicy: Sometimes", at: "spec.preemptionPolicy", want: "is not one of"},
		{spec: "nodeSelector: {'a b': c}", at: "spec.nodeSelector.a b", want: "name part must consist of"},
		{spec: "nodeSelector: {a: 'b c'}", at: "spec.nodeSelector.a", want: "a valid label must be"},
		{spec: "tolerations: [{key: 'a b', operator: Exists}]", at: "spec.tolerations[0].key", want: "name part must consist of"},
		{spec: "tolerations: [{operator: Equal, value: a}]", at: "spec.tolerations[0].operator", want: "must be Exists when key is empty"},
		{spec: "tolerations: [{key: a, operator: Exists, value: b}]", at: "spec.tolerations[0].value", want: "must be empty when operator is Exists"},
		{spec: "tolerations: [{key: a, operator: Is, value: b}]", at: "spec.tolerations[0].operator", want: "is not one of"},
		{spec: "tolerations: [{key: a, value: 'b c'}]", at: "spec.tolerations[0].value", want: "a valid label must be"},
		{spec: "tolerations: [{key: a, operator: Exists, effect: Never}]", at: "spec.tolerations[0].effect", want: "is not one of"},
		{spec: "tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 1}]", at: "spec.tolerations[0].effect", want: "must be NoExecute"},
		{spec: "hostAliases: [{ip: 1.2.3, hostnames: [a]}]", at: "spec.hostAliases[0].ip", want: "is not an address"},
		{spec: "hostAliases: [{ip: 1.2.3.4, hostnames: [a_b]}]", at: "spec.hostAliases[0].hostnames[0]", want: "RFC 1123 subdomain"},
		{spec: "dnsPolicy: Some", at: "spec.dnsPolicy", want: "address of a cluster's DNS"},
		{spec: "dnsPolicy: None", at: "spec.dnsPolicy", want: "None needs dnsConfig.nameservers"},
		{spec: "dnsPolicy: None\n  dnsConfig: {nameservers: [a]}", at: "spec.dnsConfig.nameservers", want: "is not an address"},
		{spec: "dnsPolicy: None\n  dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4]}", at: "spec.dnsConfig.nameservers", want: "3 is what a resolver takes"},
		{spec: "dnsPolicy: None\n  dnsConfig: {nameservers: [1.1.1.1], searches: [a b]}", at: "spec.dnsConfig.searches", want: "RFC 1123 subdomain"},
		{spec: "dnsPolicy: None\n  dnsConfig: {nameservers: [1.1.1.1], searches: [" + strings.Repeat("a, ", 33) + "]}", at: "spec.dnsConfig.searches", want: "32 of 2048 together"},
		{spec: "dnsPolicy: None\n  dnsConfig: {nameservers: [1.1.1.1], options: [{value: a}]}", at: "spec.dnsConfig.options[0].name", want: "is missing"},
		{spec: "os: {name: windows}", at: "spec.os.name", want: "this is Linux"},

		// Its security.
		{spec: "securityContext: {runAsUser: -1}", at: "spec.securityContext.runAsUser", want: "must be between 0 and 2147483647"},
		{spec: "securityContext: {runAsGroup: 2147483648}", at: "spec.securityContext.runAsGroup", want: "must be between 0 and"},
		{spec: "securityContext: {fsGroup: -1}", at: "spec.securityContext.fsGroup", want: "must be between 0 and"},
		{spec: "securityContext: {supplementalGroups: [-1]}", at: "spec.securityContext.supplementalGroups", want: "must be between 0 and"},
		{spec: "securityContext: {supplementalGroupsPolicy: All}", at: "spec.securityContext.supplementalGroupsPolicy", want: "is not one of Merge"},
		{spec: "securityContext: {fsGroupChangePolicy: Never}", at: "spec.securityContext.fsGroupChangePolicy", want: "is not one of OnRootMismatch"},
		{spec: "securityContext: {seLinuxChangePolicy: Never}", at: "spec.securityContext.seLinuxChangePolicy", want: "is not one of Recursive"},
		{spec: "securityContext: {sysctls: [{name: net.a, value: b}, {name: net/a, value: c}]}", at: "spec.securityContext.sysctls[1].name", want: "is given twice"},
		{spec: "securityContext: {seccompProfile: {type: Some}}", at: "spec.securityContext.seccompProfile.type", want: "seccompProfile"},
		{spec: "securityContext: {seccompProfile: {type: Localhost}}", at: "spec.securityContext.seccompProfile.localhostProfile", want: "is needed with type Localhost"},
		{spec: "securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: a}}", at: "spec.securityContext.seccompProfile.localhostProfile", want: "goes with type Localhost alone"},
		{spec: "securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../a}}", at: "spec.securityContext.seccompProfile.localhostProfile", want: "must not contain '..'"},
		{spec: "securityContext: {appArmorProfile: {type: Localhost}}", at: "spec.securityContext.appArmorProfile.localhostProfile", want: "is needed with type Localhost"},

		// Volumes.
		{spec: "volumes: [{name: A, emptyDir: {}}]", at: "spec.volumes[0].name", want: "is not a name"},
		{spec: "volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]", at: "spec.volumes[1].name", want: "another volume is called"},
		{spec: "volumes: [{name: a, emptyDir: {}, hostPath: {path: /a}}]", at: "spec.volumes[0]", want: "hostPath and emptyDir; a volume has one of them"},
		{spec: "volumes: [{name: a}]", at: "spec.volumes[0]", want: "the volume has no source"},
		{spec: "volumes: [{name: a, hostPath: {type: File}}]", at: "spec.volumes[0].hostPath.path", want: "is not an absolute path"},
		{spec: "volumes: [{name: a, hostPath: {path: /a/../b}}]", at: "spec.volumes[0].hostPath.path", want: "without .."},
		{spec: "volumes: [{name: a, hostPath: {path: /a, type: Link}}]", at: "spec.volumes[0].hostPath.type", want: "is not one of"},
		{spec: "volumes: [{name: a, emptyDir: {medium: Memory, sizeLimit: -1}}]", at: "spec.volumes[0].emptyDir.sizeLimit", want: "is negative"},
		{spec: "volumes: [{name: a, configMap: {name: m, defaultMode: 01000}}]", at: "spec.volumes[0].configMap.defaultMode", want: "is not a file mode"},
		{spec: "volumes: [{name: a, configMap: {name: m, items: [{key: k, path: a, mode: -1}]}}]", at: "spec.volumes[0].configMap.items[0].mode", want: "is not a file mode"},
		{spec: "volumes: [{name: a, configMap: {name: m, items: [{path: a}]}}]", at: "spec.volumes[0].configMap.items[0].key", want: "is missing"},
		{spec: "volumes: [{name: a, configMap: {name: m, items: [{key: k}]}}]", at: "spec.volumes[0].configMap.items[0].path", want: "is missing"},
		{spec: "volumes: [{name: a, configMap: {name: m, items: [{key: k, path: /a}]}}]", at: "spec.volumes[0].configMap.items[0].path", want: "must be relative"},
		{spec: "volumes: [{name: a, configMap: {name: m, items: [{key: k, path: ..a}]}}]", at: "spec.volumes[0].configMap.items[0].path", want: "must not begin with '..'"},
		{spec: "volumes: [{name: a, secret: {secretName: s, defaultMode: 01000}}]", at: "spec.volumes[0].secret.defaultMode", want: "is not a file mode"},
		{spec: "volumes: [{name: a, downwardAPI: {items: [{path: ..a, fieldRef: {fieldPath: metadata.name}}]}}]", at: "spec.volumes[0].downwardAPI.items[0].path", want: "must not begin with '..'"},
		{spec: "volumes: [{name: a, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}, {path: a, fieldRef: {fieldPath: metadata.uid}}]}}]", at: "spec.volumes[0].downwardAPI.items[1].path", want: "another file of the volume"},
		{spec: "volumes: [{name: a, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}, resourceFieldRef: {containerName: c, resource: limits.cpu}}]}}]", at: "spec.volumes[0].downwardAPI.items[0]", want: "a file has one of them"},
		{spec: "volumes: [{name: a, downwardAPI: {items: [{path: a, resourceFieldRef: {resource: limits.cpu}}]}}]", at: "spec.volumes[0].downwardAPI.items[0].resourceFieldRef.containerName", want: "is missing"},
		{spec: "volumes: [{name: a, downwardAPI: {items: [{path: a, fieldRef: {apiVersion: v2, fieldPath: metadata.name}}]}}]", at: "spec.volumes[0].downwardAPI.items[0].fieldRef.apiVersion", want: "is not one of"},
		{spec: "volumes: [{name: a, projected: {}}]", at: "spec.volumes[0].projected.sources", want: "is empty"},
		{spec: "volumes: [{name: a, projected: {sources: [{configMap: {name: m}, downwardAPI: {}}]}}]", at: "spec.volumes[0].projected.sources[0]", want: "a source has one of them"},
		{spec: "volumes: [{name: a, projected: {sources: [{configMap: {name: m, items: [{key: k, path: a}]}}, {downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}]}}]", at: "spec.volumes[0].projected.sources[1].downwardAPI.items[0].path", want: "another file of the volume"},
		{spec: "volumes: [{name: a, projected: {defaultMode: 01000, sources: [{configMap: {name: m}}]}}]", at: "spec.volumes[0].projected.defaultMode", want: "is not a file mode"},

		// Containers.
		{container: "name: A", at: "spec.containers[0].name", want: "is not a name"},
		{spec: "initContainers: [{name: c, command: [/i]}]", at: "spec.containers[0].name", want: "another container is called"},
		{container: "image: ' a'", at: "spec.containers[0].image", want: "begins or ends with a space"},
		{container: "imagePullPolicy: Maybe", at: "spec.containers[0].imagePullPolicy", want: "is not one of"},
		{container: "terminationMessagePolicy: Maybe", at: "spec.containers[0].terminationMessagePolicy", want: "is not one of"},
		{container: "ports: [{name: Web, containerPort: 1}]", at: "spec.containers[0].ports[0].name", want: "must contain only alpha-numeric"},
		{container: "ports: [{name: a, containerPort: 1}, {name: a, containerPort: 2}]", at: "spec.containers[0].ports[1].name", want: "another port of the container"},
		{container: "ports: [{containerPort: 0}]", at: "spec.containers[0].ports[0].containerPort", want: "between 1 and 65535"},
		{container: "ports: [{containerPort: 65536}]", at: "spec.containers[0].ports[0].containerPort", want: "between 1 and 65535"},
		{container: "ports: [{containerPort: 1, protocol: HTTP}]", at: "spec.containers[0].ports[0].protocol", want: "is not one of"},
		{spec: "hostNetwork: true", container: "ports: [{containerPort: 1, hostPort: 1}, {containerPort: 1, hostPort: 1}]", at: "spec.containers[0].ports[1].hostPort", want: "another port of the pod"},
		{spec: "hostNetwork: true", container: "ports: [{containerPort: 1, hostPort: 1}, {containerPort: 1, hostPort: 1, protocol: UDP}, {containerPort: 1, hostPort: 1, protocol: TCP}]", at: "spec.containers[0].ports[2].hostPort", want: "another port of the pod"},
		{container: "env: [{value: a}]", at: "spec.containers[0].env[0].name", want: "systemd drops variables"},
		{container: "env: [{name: 'a=b', value: a}]", at: "spec.containers[0].env[0].name", want: "systemd drops variables"},
		{container: "env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, configMapKeyRef: {name: m, key: k}}}]", at: "spec.containers[0].env[0].valueFrom", want: "a variable has one of them"},
		{container: "env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a b']\"}}}]", at: "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", want: "name part must consist of"},
		{container: "env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: 'a b', optional: true}}}]", at: "spec.containers[0].env[0].valueFrom.configMapKeyRef.key", want: "a valid config key"},
		{container: "env: [{name: A, valueFrom: {}}]", at: "spec.containers[0].env[0].valueFrom", want: "none of fieldRef"},
		{container: "envFrom: [{prefix: 'a=', configMapRef: {name: m}}]", at: "spec.containers[0].envFrom[0].prefix", want: "environment variable name"},
		{container: "envFrom: [{configMapRef: {name: m}, secretRef: {name: s}}]", at: "spec.containers[0].envFrom[0]", want: "an entry has one of them"},
		{container: "volumeMounts: [{name: x, mountPath: /x}]", at: "spec.containers[0].volumeMounts[0].name", want: "the pod has no volume"},
		{spec: "volumes: [{name: a, emptyDir: {}}]", container: "volumeMounts: [{name: a}]", at: "spec.containers[0].volumeMounts[0].mountPath", want: "is not an absolute path"},
		{spec: "volumes: [{name: a, emptyDir: {}}]", container: "volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /a}]", at: "spec.containers[0].volumeMounts[1].mountPath", want: "another volume is mounted"},
		{spec: "volumes: [{name: a, emptyDir: {}}]", container: "volumeMounts: [{name: a, mountPath: /a, subPath: ../b}]", at: "spec.containers[0].volumeMounts[0].subPath", want: "is not a path inside"},
		{spec: "volumes: [{name: a, emptyDir: {}}]", container: "volumeMounts: [{name: a, mountPath: /a, subPath: b, subPathExpr: c}]", at: "spec.containers[0].volumeMounts[0].subPathExpr", want: "subPath is given as well"},
		{spec: "volumes: [{name: a, emptyDir: {}}]", container: "volumeMounts: [{name: a, mountPath: /a, subPathExpr: /b}]", at: "spec.containers[0].volumeMounts[0].subPathExpr", want: "must be relative"},
		{spec: "volumes: [{name: a, emptyDir: {}}]", container: "volumeMounts: [{name: a, mountPath: /a, mountPropagation: Both}]", at: "spec.containers[0].volumeMounts[0].mountPropagation", want: "is not one of"},
		{spec: "volumes: [{name: a, hostPath: {path: /a}}]", container: "volumeMounts: [{name: a, mountPath: /a, mountPropagation: Bidirectional}]", at: "spec.containers[0].volumeMounts[0].mountPropagation", want: "Bidirectional"},
		{spec: "volumes: [{name: a, emptyDir: {}}]", container: "volumeMounts: [{name: a, mountPath: /a, recursiveReadOnly: Enabled}]", at: "spec.containers[0].volumeMounts[0].recursiveReadOnly", want: "goes with readOnly: true"},
		{spec: "volumes: [{name: a, emptyDir: {}}]", container: "volumeMounts: [{name: a, mountPath: /a, readOnly: true, recursiveReadOnly: Enabled, mountPropagation: HostToContainer}]", at: "spec.containers[0].volumeMounts[0].recursiveReadOnly", want: "goes with mountPropagation None"},
		{container: "resources: {requests: {cpu: 2}, limits: {cpu: 1}}", at: "spec.containers[0].resources.requests.cpu", want: "2 is above the limit, 1"},
		{container: "resources: {limits: {memory: -1}}", at: "spec.containers[0].resources.limits.memory", want: "is negative"},
		{container: "livenessProbe: {tcpSocket: {port: '80'}}", at: "spec.containers[0].livenessProbe.tcpSocket.port", want: "must contain at least one letter"},
		{container: "livenessProbe: {tcpSocket: {port: 0}}", at: "spec.containers[0].livenessProbe.tcpSocket.port", want: "is not a port number"},
		{container: "livenessProbe: {exec: {command: [/p]}, periodSeconds: -1}", at: "spec.containers[0].livenessProbe.periodSeconds", want: "is not between"},
		{container: "livenessProbe: {}", at: "spec.containers[0].livenessProbe", want: "0 ways to probe"},
		{container: "livenessProbe: {exec: {command: []}}", at: "spec.containers[0].livenessProbe.exec.command", want: "is empty"},
		{container: "restartPolicy: Never\n    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1, 1]}}]", at: "spec.containers[0].restartPolicyRules[0].exitCodes.values", want: "different codes"},
		{container: "restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]", at: "spec.containers[0].restartPolicyRules", want: "the container's own restartPolicy"},
		{container: "securityContext: {runAsUser: -1}", at: "spec.containers[0].securityContext.runAsUser", want: "must be between 0 and"},
		{container: "securityContext: {runAsGroup: -1}", at: "spec.containers[0].securityContext.runAsGroup", want: "must be between 0 and"},
		{container: "securityContext: {procMount: Some}", at: "spec.containers[0].securityContext.procMount", want: "Default can be had"},
		{container: "securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}", at: "spec.containers[0].securityContext.allowPrivilegeEscalation", want: "cannot go with CAP_SYS_ADMIN"},
		{container: "securityContext: {allowPrivilegeEscalation: false, privileged: true}", at: "spec.containers[0].securityContext.allowPrivilegeEscalation", want: "cannot go with privileged"},
		{container: "securityContext: {seccompProfile: {type: Unconfined, localhostProfile: a}}", at: "spec.containers[0].securityContext.seccompProfile.localhostProfile", want: "goes with type Localhost alone"},
	} {
		metadata, name := "namespace: ns", "name: c"
		if c.metadata != "" {
			metadata = c.metadata
		}
		if strings.HasPrefix(c.container, "name: ") {
			name, c.container = c.container, ""
		}
		text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  %s\nspec:\n  %s\n  containers:\n  - %s\n    command: [/c]\n    %s\n", metadata, c.spec, name, c.container)
		text += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: ns}\ndata: {k: v}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: ns}\nstringData: {k: v}\n"
		t.Run(c.at+" "+c.want, func(t *testing.T) {
			docs, err := manifest.Read("p.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			_, _, err = Translate(docs[0], Options{Target: Systemd, Objects: docs})
			_, _, initErr := Translate(docs[0], Options{Target: Init, Objects: docs})
			if err == nil || initErr == nil {
				t.Fatalf("taken by one of the two: systemd %v, PID 1 %v", err, initErr)
			}
			found := false
			for line := range strings.Lines(err.Error() + "\n" + initErr.Error()) {
				_, rest, ok := strings.Cut(line, ": ") // after FILE:LINE
				found = found || ok && strings.HasPrefix(line, "p.yaml:") && strings.HasPrefix(rest, c.at+": ") && strings.Contains(rest, c.want)
			}
			if !found {
				t.Errorf("error %.400v, want one at %s that says %q", err, c.at, c.want)
			}
		})
	}
}

// What an API server takes is taken: names at the limits, and odd but valid values.
func TestValidManifests(t *testing.T) {
	for _, c := range []struct{ spec, container string }{
		{"nodeSelector: {kubernetes.io/os: linux, a: ''}", ""},
		{"tolerations: [{operator: Exists}, {key: a, value: b, effect: NoExecute, tolerationSeconds: 0}]", ""},
		{"securityContext: {runAsUser: 0, runAsGroup: 2147483647}", ""},
		{"initContainers: [{name: i, command: [/i], ports: [{containerPort: 1}]}]", "ports: [{containerPort: 1}, {containerPort: 1, protocol: UDP}]"},
		{"", "resources: {requests: {memory: 1Gi}, limits: {memory: 1024Mi}}"},
		{"", "env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]"},
	} {
		if _, err := translate(t, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a.b/c: '', d: E_f.g-1}, annotations: {A/B: 'any thing'}}\nspec:\n  %s\n  containers:\n  - name: c\n    command: [/c]\n    %s\n", c.spec, c.container), Options{Target: Systemd}); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// ConfigMaps and Secrets are checked as an API server does, wherever they are used.
func TestInvalidObjects(t *testing.T) {
	for text, want := range map[string]string{
		"kind: ConfigMap\nmetadata: {name: A}":                                                                          `o.yaml:3: metadata.name: "A": a lowercase RFC 1123 subdomain`,
		"kind: ConfigMap\nmetadata: {name: a, namespace: b.c}":                                                          "metadata.namespace",
		"kind: ConfigMap\nmetadata: {name: a, labels: {b: c d}}":                                                        "metadata.labels.b: \"c d\": a valid label",
		"kind: ConfigMap\nmetadata: {name: a}\ndata: {'a b': c}":                                                        `o.yaml:4: data.a b: "a b": a valid config key`,
		"kind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\nbinaryData: {a: Yg==}":                                     "o.yaml:5: binaryData.a: is in data too",
		"kind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 1<<20+1) + "}":                         "1048576 is what an object may hold",
		"kind: Secret\nmetadata: {name: a}\nstringData: {..: b}":                                                        "stringData...",
		"kind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/tls\nstringData: {tls.crt: b}":                          "o.yaml:4: type: kubernetes.io/tls needs the key tls.key",
		"kind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/basic-auth\nstringData: {user: b}":                      "needs the key username or password",
		"kind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/basic-auth\ndata: {username: Yg==}":                     "",
		"kind: ConfigMap\nmetadata: {name: a.b, annotations: {c: d e}}\ndata: {.a_b-c.d: ''}":                           "",
		"kind: Secret\nmetadata: {name: a}\ndata: {a: Yg==}\nstringData: {a: c}":                                        "",
		"kind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: default}": "o.yaml:7: a second Secret is called default/a",
		"kind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}":                  "",
		"kind: Secret\nmetadata: {name: a}\ntype: my.own/type":                                                          "",
		"kind: Pod\nmetadata: {name: A}\nspec: {containers: [{name: a}]}":                                               "",
	} {
		docs, err := manifest.Read("o.yaml", []byte("apiVersion: v1\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		err = CheckObjects(docs)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: error %v, want %q", text, err, want)
		}
	}
}
