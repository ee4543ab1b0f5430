package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"garboard.local/init/table"
	"garboard.local/pod/manifest"
)

// podOf is a manifest with more fields of the container and of the spec.
func podOf(spec, container string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns, labels: {l: v}}\nspec:\n  hostNetwork: true\n" + spec + "\n  containers:\n  - name: c\n    command: [/c]\n" + container + "\n"
}

func translate(t *testing.T, text string, o Options) (*Plan, error) {
	t.Helper()
	docs, err := manifest.Read("p.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	o.Objects = docs
	p, _, err := Translate(docs[0], o)
	return p, err
}

// Values that cannot be had are refused where they stand, with a cure.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, spec, container string
		target                Target
		want                  string
	}{
		{"variable systemd would drop", "", "    env: [{name: a.b, value: x}]", Systemd, `p.yaml:10: spec.containers[0].env[0].name: "a.b": systemd drops`},
		{"variable without a name", "", "    env: [{name: 'a=b', value: x}]", Init, "is not a variable's name"},
		{"secret in an argument", "", "    args: ['--p=$(P)']\n    env: [{name: P, valueFrom: {secretKeyRef: {name: s, key: k}}}]", Systemd, "would put the value of a secret where everybody"},
		{"secret for init", "", "    env: [{name: P, valueFrom: {secretKeyRef: {name: s, key: k}}}]", Init, "an image that everybody may read"},
		{"no such config map", "", "    env: [{name: P, valueFrom: {configMapKeyRef: {name: x, key: k}}}]", Systemd, "ConfigMap ns/x: the file has no such document, and no --objects directory"},
		{"no such key", "", "    env: [{name: P, valueFrom: {configMapKeyRef: {name: m, key: x}}}]", Systemd, `ConfigMap m has no key "x"`},
		{"binary variable", "", "    envFrom: [{configMapRef: {name: m}}]", Systemd, "the value of b is not text"},
		{"host IP", "", "    env: [{name: P, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]", Systemd, "give --node-ip"},
		{"node name for init", "", "    env: [{name: P, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]", Init, "known at run time only"},
		{"unknown field path", "", "    env: [{name: P, valueFrom: {fieldRef: {fieldPath: spec.x}}}]", Systemd, `"spec.x" is not a field`},
		{"value twice", "", "    env: [{name: P, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", Systemd, "leave one of them out"},
		{"root though not root", "  securityContext: {runAsNonRoot: true}", "", Systemd, "p.yaml:6: spec.securityContext.runAsNonRoot: container c would run as root"},
		{"unknown capability", "", "    securityContext: {capabilities: {add: [FLY]}}", Systemd, `"FLY" is not a capability`},
		{"privileged without escalation", "", "    securityContext: {privileged: true, allowPrivilegeEscalation: false}", Systemd, "cannot go with privileged"},
		{"local seccomp profile", "", "    securityContext: {seccompProfile: {type: Localhost, localhostProfile: x}}", Systemd, "a profile in JSON"},
		{"seccomp profile that is not there", "", "    securityContext: {seccompProfile: {type: Localhost, localhostProfile: x.json}}", Init, "seccompProfile.localhostProfile: there is no x.json; a profile lies beside its manifest"},
		{"seccomp profile elsewhere", "  securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../x.json}}", "", Init, `spec.securityContext.seccompProfile.localhostProfile: "../x.json" must not`},
		{"seccomp profile with wrong names", "", "    securityContext: {seccompProfile: {type: Localhost, localhostProfile: testdata/seccomp-wrong.json}}", Init, `testdata/seccomp-wrong.json: "mkdri" is no system call; did you mean "mkdir"?`},
		{"seccomp profile that is none", "", "    securityContext: {seccompProfile: {type: Localhost, localhostProfile: testdata/node.yaml}}", Init, "testdata/node.yaml: not a seccomp profile"},
		{"no seccomp profile", "", "    securityContext: {seccompProfile: {type: Localhost}}", Init, "localhostProfile: is needed with type Localhost"},
		{"seccomp profile too many", "", "    securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: x}}", Systemd, "localhostProfile: goes with type Localhost"},
		{"seccomp of another type", "", "    securityContext: {seccompProfile: {type: Default}}", Init, `seccompProfile.type: "Default" is not one of`},
		{"sysctl of the host", "  securityContext: {sysctls: [{name: net.core.somaxconn, value: '1'}]}", "", Systemd, "would change the host"},
		{"sysctl without a namespace", "  securityContext: {sysctls: [{name: vm.swappiness, value: '1'}]}", "", Systemd, "belongs to no namespace"},
		{"size on a disk", "  volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]", "", Systemd, "use medium: Memory"},
		{"volume without a source", "  volumes: [{name: v}]", "", Systemd, "the volume has no source"},
		{"claim", "  volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]", "", Systemd, "persistentVolumeClaim.claimName: a cluster binds claims; mount the storage on the host"},
		{"token", "  volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: x}}]}}]", "", Systemd, "an API server issues tokens"},
		{"path out of a volume", "  volumes: [{name: v, configMap: {name: m, items: [{key: k, path: ../x}]}}]", "", Systemd, `items[0].path: "../x" must not`},
		{"mount of nothing", "", "    volumeMounts: [{name: v, mountPath: /v}]", Systemd, `the pod has no volume "v"`},
		{"mount over everything", "  volumes: [{name: v, emptyDir: {}}]", "    volumeMounts: [{name: v, mountPath: /}]", Systemd, "absolute path below /"},
		{"two at one place", "  volumes: [{name: v, emptyDir: {}}]", "    volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /v/}]", Systemd, "another volume is mounted at /v too"},
		{"propagation out of a namespace of its own, for init", "  volumes: [{name: v, hostPath: {path: /a}}]", "    volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /a, mountPropagation: Bidirectional}]", Init, "volumeMounts[1].mountPropagation: Bidirectional"},
		{"unknown port", "", "    readinessProbe: {tcpSocket: {port: web}}", Systemd, `no port of the container is called "web"`},
		{"two probes", "", "    readinessProbe: {tcpSocket: {port: 1}, exec: {command: [/x]}}", Systemd, "2 ways to probe"},
		{"liveness by HTTP for init", "", "    livenessProbe: {httpGet: {port: 1}}", Init, "livenessProbe.httpGet.port: not for PID 1"},
		{"liveness with two successes", "", "    livenessProbe: {exec: {command: [/x]}, successThreshold: 2}", Systemd, "successThreshold: must be 1 for liveness and startup"},
		{"http for init", "", "    readinessProbe: {httpGet: {port: 1}}", Init, "readinessProbe.httpGet.port: not for PID 1, which has no HTTP"},
		{"init container with a probe", "  initContainers: [{name: i, command: [/i], readinessProbe: {exec: {command: [/x]}}}]", "", Systemd, "it is ready when it has ended"},
		{"init container with a hook, for init", "  initContainers: [{name: i, command: [/i], lifecycle: {preStop: {exec: {command: [/x]}}}}]", "", Init, "initContainers[0].lifecycle: an init container has none"},
		{"hook by HTTP for init", "", "    lifecycle: {preStop: {httpGet: {port: 1}}}", Init, "lifecycle.preStop.httpGet.port: not for PID 1, which has no HTTP"},
		{"hook by TCP", "", "    lifecycle: {postStart: {tcpSocket: {port: 1}}}", Init, "lifecycle.postStart.tcpSocket.port: means nothing in Kubernetes either"},
		{"hook without a path, for init", "", "    lifecycle: {preStop: {exec: {command: [x]}}}", Init, "preStop.exec.command: must begin with an absolute path"},
		{"hook without a command", "", "    lifecycle: {preStop: {exec: {command: []}}}", Init, "preStop.exec: the command is empty"},
		{"sleep longer than the grace", "  terminationGracePeriodSeconds: 5", "    lifecycle: {preStop: {sleep: {seconds: 6}}}", Init, "preStop.sleep.seconds: 6 is not between 1 and the grace of 5"},
		{"real-time signal", "", "    lifecycle: {stopSignal: SIGRTMIN+1}", Init, "real-time signals are not the same numbers"},
		{"no signal", "", "    lifecycle: {stopSignal: SIGTERN}", Init, `"SIGTERN" is not a signal`},
		{"host port", "", "    ports: [{containerPort: 80, hostPort: 8080}]", Systemd, "nothing forwards ports"},
		{"token by account", "  serviceAccountName: x", "", Systemd, "counts on a token"},
		{"hugepages", "", "    resources: {limits: {hugepages-2Mi: 2Mi}}", Systemd, "no way to give or to limit hugepages-2Mi"},
		{"limit below request", "", "    resources: {limits: {memory: 1Mi}, requests: {memory: 2Mi}}", Systemd, "is above the limit"},
		{"deadline of restarts", "  activeDeadlineSeconds: 5", "", Systemd, "time of all runs together"},
		{"DNS of a cluster", "  dnsPolicy: ClusterFirstWithHostNet", "", Systemd, "address of a cluster's DNS is not known"},
		{"control character in a path", "", `    workingDir: "/a\nb"`, Systemd, "control characters"},
		{"image without a directory", "", "    image: x\n    workingDir: relative", Systemd, "is not an absolute path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := podOf(c.spec, c.container) + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: ns}\ndata: {k: v}\nbinaryData: {b: /w==}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: ns}\nstringData: {k: v}\n"
			if _, err := translate(t, text, Options{Target: c.target}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestAnnotationRefusals(t *testing.T) {
	for annotation, want := range map[string]string{
		"garboard.local/rool: x":                          "did you mean garboard.local/role?",
		"garboard.local/user.d: x":                        `the pod has no container "d"`,
		"garboard.local/user: '1000'":                     "numbers go into runAsUser",
		"garboard.local/limits: files=1":                  `"files" is not a resource limit; known are cpu`,
		"garboard.local/limits: nofile=x":                 "neither a number nor unlimited",
		"garboard.local/limits: nofile=2:1":               "above the second",
		"garboard.local/limits: nofile=unlimited:1":       "above the second",
		"garboard.local/after: A":                         "is not the name of a pod",
		"garboard.local/wait-seconds: '-1'":               "number from 0 to 3600",
		"garboard.local/ready-socket: run/x":              "not an absolute path",
		"garboard.local/ambient-capabilities: NET_ADMIN":  "not among the container's capabilities",
		"garboard.local/ambient-capabilities.c: CAP_WING": "is not a capability",
	} {
		text := strings.Replace(podOf("", ""), "labels: {l: v}", "annotations: {"+annotation+"}", 1)
		if _, err := translate(t, text, Options{Target: Systemd}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", annotation, err, want)
		}
	}
}

// The bounding set follows container runtimes: ALL first, then single ones.
func TestCapabilities(t *testing.T) {
	all := len(table.Capabilities())
	for in, want := range map[string][]string{
		"{drop: [ALL]}":                    {},
		"{drop: [all], add: [CAP_CHOWN]}":  {"CHOWN"},
		"{drop: [KILL]}":                   {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE"},
		"{add: [net_admin], drop: [ALL]}":  {"NET_ADMIN"},
		"{add: [ALL], drop: [SYS_MODULE]}": nil,
	} {
		p, err := translate(t, podOf("", "    securityContext: {capabilities: "+in+"}"), Options{Target: Systemd})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Services[0].Caps
		if want == nil {
			if len(got) != all-1 || slices.Contains(got, "SYS_MODULE") {
				t.Errorf("%s: %q", in, got)
			}
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// References are found in a directory of files too, and optional ones may be absent.
func TestObjectsDirectory(t *testing.T) {
	dir := t.TempDir()
	for f, text := range map[string]string{"configmaps/ns/m/k": "from a file\n", "configmaps/ns/m/.hidden": "x", "secrets/ns/s/k": "secret"} {
		p := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := translate(t, podOf("", `    envFrom: [{configMapRef: {name: m}}, {secretRef: {name: s, optional: true}}, {secretRef: {name: absent, optional: true}}]
    env: [{name: X, valueFrom: {configMapKeyRef: {name: m, key: absent, optional: true}}}, {name: YY, value: "<$(k)>"}]`), Options{Target: Systemd, ObjectsDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := p.Services[0]
	// The secret's k comes later than the map's and replaces it; what refers to it is as secret.
	if want := []Setting{{"HOSTNAME", NodeName}}; !reflect.DeepEqual(s.Env, want) {
		t.Errorf("variables %q, want %q", s.Env, want)
	}
	if want := []Setting{{"k", "secret"}, {"YY", "<secret>"}}; !reflect.DeepEqual(s.SecretEnv, want) {
		t.Errorf("secret variables %q, want %q", s.SecretEnv, want)
	}
}

// An unpacked image says what the manifest does not.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	image := "registry.example:5000/a/b@sha256:00"
	d := filepath.Join(dir, ImageDir(image))
	if err := os.MkdirAll(d, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d+"/config.json", []byte(`{"config": {"Entrypoint": ["/e"], "Cmd": ["c"], "Env": ["A=1", "B=2"], "User": "7:8", "WorkingDir": "/w"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ container, argv, dir, user string }{
		{"", "/e c", "/w", "7"},
		{"    args: [x]", "/e x", "/w", "7"},
		{"    command: [/y]\n    workingDir: /z\n    securityContext: {runAsUser: 9}", "/y", "/z", "9"},
	} {
		text := strings.Replace(podOf("", "    image: "+image+"\n    env: [{name: B, value: 3}]\n"+c.container), "    command: [/c]\n", "", 1)
		text = strings.Replace(text, "value: 3", `value: "3"`, 1)
		p, err := translate(t, text, Options{Target: Systemd, ImagesDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		s := p.Services[0]
		if got := strings.Join(s.Argv, " "); got != c.argv || s.Dir != c.dir || s.User != c.user || s.Root != d+"/rootfs" {
			t.Errorf("%s: %q in %s as %s, root %s", c.container, got, s.Dir, s.User, s.Root)
		}
		if want := []Setting{{"A", "1"}, {"HOSTNAME", NodeName}, {"B", "3"}}; !reflect.DeepEqual(s.Env, want) {
			t.Errorf("variables %q, want %q", s.Env, want)
		}
	}
	if strings.ContainsAny(ImageDir(image), ":/%@") || ImageDir("a:b") == ImageDir("a/b") {
		t.Errorf("directory %q", ImageDir(image))
	}
}

// Init containers become tasks that the containers require; order between pods
// names every service that stays.
func TestTable(t *testing.T) {
	text := podOf("  initContainers: [{name: i, command: [/i]}, {name: j, command: [/j], restartPolicy: Never}]", "  - {name: d, command: [/d]}") +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: q, namespace: ns, annotations: {garboard.local/after: p}}\nspec: {containers: [{name: x, command: [/x]}]}\n"
	docs, err := manifest.Read("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	services, err := Services(docs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range services.Services {
		got = append(got, fmt.Sprintf("%s once=%v restart=%s requires=%v after=%v wait=%d", s.Name, s.Once, s.Restart, s.Requires, s.After, s.WaitSeconds))
	}
	want := []string{
		"p-i once=true restart=OnFailure requires=[] after=[] wait=0",
		"p-j once=true restart=Never requires=[p-i] after=[] wait=0",
		"p-c once=false restart=Always requires=[p-i p-j] after=[] wait=0",
		"p-d once=false restart=Always requires=[p-i p-j] after=[] wait=0",
		"q once=false restart=Always requires=[] after=[p-c p-d] wait=30",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for from, to := range map[string]string{"after: p": "after: r", "name: q": "name: p-c"} {
		docs, err := manifest.Read("p.yaml", []byte(strings.Replace(text, from, to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Services(docs, Options{}); err == nil {
			t.Errorf("%s: no error", to)
		}
	}
}

// Any argument and variable reaches PID 1 as it is: the table is JSON.
func FuzzTableRoundTrip(f *testing.F) {
	f.Add("a b", "%h $HOME \"\\;\n\x01é")
	f.Fuzz(func(t *testing.T, word, value string) {
		if !utf8.ValidString(word) || !utf8.ValidString(value) || strings.ContainsRune(word+value, 0) {
			return
		}
		p := &Plan{Namespace: "n", Name: "p", Services: []Service{{Name: "c", Kind: Container, Argv: []string{"/c", word}, Env: []Setting{{"A", value}}, Restart: "Always"}}}
		services, err := Table([]*Plan{p})
		if err != nil {
			t.Fatal(err)
		}
		b, err := JSON(&table.Table{Version: 1, Services: services.Services})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "node.json")
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		back, err := table.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if s := back.Services[0]; s.Command[1] != word || s.Env[0] != "A="+value {
			t.Errorf("%q %q became %q %q", word, value, s.Command[1], s.Env[0])
		}
	})
}
