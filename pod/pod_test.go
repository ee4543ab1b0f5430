package pod

import (
	"reflect"
	"strings"
	"testing"

	"garboard.local/init/table"
)

const crio = `
apiVersion: v1
kind: Pod
metadata:
  name: crio
  annotations:
    garboard.local/role: runtime
    garboard.local/ready-socket: /run/crio/crio.sock
    garboard.local/oom-score-adj: "-999"
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 10
  containers:
  - name: crio
    command: [/usr/bin/crio]
    args: ["--log-level", "a b"]
    env: [{name: PATH, value: "/usr/bin:/x y"}]
    resources: {requests: {cpu: 1, memory: 96Mi}}
`

func TestParse(t *testing.T) {
	got, err := Parse([]byte(crio))
	if err != nil {
		t.Fatal(err)
	}
	want := table.Service{
		Name: "crio", Role: "runtime", Command: []string{"/usr/bin/crio", "--log-level", "a b"},
		Env: []string{"PATH=/usr/bin:/x y"}, Restart: "Always", GraceSeconds: 10, OOMScoreAdj: -999, CPUWeight: 39, MemoryMin: 96 << 20,
		Ready: &table.Probe{Unix: "/run/crio/crio.sock", PeriodMillis: 50, TimeoutMillis: 1000},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown field", "restartPolicy:", "restartPolicyy:", "restartPolicyy"},
		{"field without meaning", "  containers:", "  hostNetwork: true\n  containers:", "spec.hostNetwork has no meaning"},
		{"volume", "  containers:", "  volumes: [{name: v, emptyDir: {medium: Memory}}]\n  containers:", "spec.volumes[]"},
		{"relative command", "[/usr/bin/crio]", "[crio]", "absolute path"},
		{"no command", "    command: [/usr/bin/crio]\n", "", "absolute path"},
		{"two containers", "  - name: crio", "  - name: other\n    command: [/x]\n  - name: crio", "exactly one"},
		{"wrong kind", "kind: Pod", "kind: Deployment", "v1 Pod"},
		{"unknown annotation", "garboard.local/role", "garboard.local/rool", "garboard.local/rool is not known"},
		{"unknown role", "role: runtime", "role: boss", "neither"},
		{"oom score", `"-999"`, `"-1001"`, "number from -1000 to 1000"},
		{"probe twice", "    env:", "    readinessProbe: {tcpSocket: {port: 1}}\n    env:", "both a readinessProbe"},
		{"http probe", "    env:", "    readinessProbe: {httpGet: {port: 1}}\n    env:", "httpGet.port has no meaning"},
		{"negative grace", "Seconds: 10", "Seconds: -1", "not between"},
		{"no CPU", "cpu: 1,", "cpu: 0,", "requests.cpu: 0 is not"},
		{"too many CPUs", "cpu: 1,", "cpu: 1k,", "requests.cpu: 1k is not"},
		{"negative memory", "96Mi", "-1", "requests.memory: -1 is negative"},
		{"no quantity", "96Mi", "96 MB", "quantities must match"},
		{"limit", "requests:", "limits:", "resources.limits.cpu has no meaning"},
		{"other resource", "memory: 96Mi", "disk: 1", "resources.requests.disk has no meaning"},
		{"restart policy", "Always", "Sometimes", "Sometimes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := strings.Replace(crio, c.from, c.to, 1)
			if in == crio {
				t.Fatalf("the case does not change the manifest")
			}
			if _, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(crio))
	f.Add([]byte("kind: Pod\napiVersion: v1\nspec: {containers: [{readinessProbe: {}}]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err == nil && (s.Name == "" || len(s.Command) == 0) {
			t.Errorf("accepted %q as %+v", b, s)
		}
	})
}
