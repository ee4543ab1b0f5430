package pod

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"garboard.local/init/table"
	"garboard.local/pod/manifest"
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

func parse(b []byte) ([]table.Service, error) {
	docs, err := manifest.Read("test.yaml", b)
	if err != nil {
		return nil, err
	}
	c, err := Services(docs, Options{})
	if err != nil {
		return nil, err
	}
	return c.Services, nil
}

func TestParse(t *testing.T) {
	got, err := parse([]byte(crio))
	if err != nil {
		t.Fatal(err)
	}
	want := []table.Service{{
		Name: "crio", Role: "runtime", Command: []string{"/usr/bin/crio", "--log-level", "a b"},
		Env: []string{"PATH=/usr/bin:/x y"}, Restart: "Always", GraceSeconds: 10, OOMScoreAdj: -999, CPUWeight: 39, MemoryMin: 96 << 20,
		Ready: &table.Probe{Unix: "/run/crio/crio.sock", PeriodMillis: 50, TimeoutMillis: 1000},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown field", "restartPolicy:", "restartPolicyy:", "restartPolicyy"},
		{"field without meaning", "  containers:", "  hostNetwork: false\n  containers:", "spec.hostNetwork: a service of PID 1 shares the host's"},
		{"volume", "  containers:", "  volumes: [{name: v, secret: {secretName: s}}]\n  containers:", "spec.volumes[0].secret.secretName: an image can be read"},
		{"relative command", "[/usr/bin/crio]", "[crio]", "absolute path"},
		{"no command", "    command: [/usr/bin/crio]\n", "", "command: is needed"},
		{"one name twice", "  - name: crio", "  - name: crio\n    command: [/x]\n  - name: crio", "another container is called \"crio\""},
		{"wrong kind", "kind: Pod", "kind: Deployment", "kind Deployment: Pods are read; its spec.template"},
		{"unknown annotation", "garboard.local/role", "garboard.local/rool", "garboard.local/rool is not known"},
		{"unknown role", "role: runtime", "role: boss", "neither"},
		{"oom score", `"-999"`, `"-1001"`, "number from -1000 to 1000"},
		{"probe twice", "    env:", "    readinessProbe: {tcpSocket: {port: 1}}\n    env:", "both a readinessProbe"},
		{"http probe", "    env:", "    readinessProbe: {httpGet: {port: 1}}\n    env:", "readinessProbe.httpGet.port: not for PID 1"},
		{"negative grace", "Seconds: 10", "Seconds: -1", "not between"},
		{"no CPU", "cpu: 1,", "cpu: 0,", "requests.cpu: 0 is not"},
		{"too many CPUs", "cpu: 1,", "cpu: 1k,", "requests.cpu: 1k is not"},
		{"negative memory", "96Mi", "-1", "requests.memory: -1 is negative"},
		{"no quantity", "96Mi", "96 MB", "quantities must match"},
		{"limit", "requests: {cpu: 1,", "limits: {cpu: 0,", "limits.cpu: 0 is not"},
		{"other resource", "memory: 96Mi", "disk: 1", "requests.disk: there is no way"},
		{"restart policy", "Always", "Sometimes", "Sometimes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := strings.Replace(crio, c.from, c.to, 1)
			if in == crio {
				t.Fatalf("the case does not change the manifest")
			}
			if _, err := parse([]byte(in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

// FuzzServices: whatever a manifest says, it is refused or makes a table that PID 1 takes.
func FuzzServices(f *testing.F) {
	f.Add([]byte(crio))
	f.Add([]byte("kind: Pod\napiVersion: v1\nspec: {containers: [{readinessProbe: {}}]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parse(b)
		if err != nil {
			return
		}
		if err := (&table.Table{Version: 1, Services: s}).Check(); err != nil || len(s) == 0 {
			t.Errorf("accepted %q as %+v: %v", b, s, err)
		}
	})
}

// "After: runtime" means whichever service has that role, unless one is called so.
func TestAfterRole(t *testing.T) {
	kubelet := "apiVersion: v1\nkind: Pod\nmetadata: {name: kubelet, annotations: {garboard.local/after: \"runtime, other\"}}\nspec: {containers: [{name: k, command: [/k]}]}\n"
	other := "apiVersion: v1\nkind: Pod\nmetadata: {name: other}\nspec: {containers: [{name: o, command: [/o]}]}\n"
	for _, c := range []struct{ name, role, want string }{
		{"containerd", "runtime", "containerd other"},
		{"runtime", "", "runtime other"},
		{"crio", "", ""}, // no runtime at all
	} {
		first := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + c.name + "}\nspec: {containers: [{name: r, command: [/r]}]}\n"
		if c.role != "" {
			first = strings.Replace(first, "name: "+c.name, "name: "+c.name+", annotations: {garboard.local/role: "+c.role+"}", 1)
		}
		dir := t.TempDir()
		var files []string
		for name, text := range map[string]string{"1": first, "2": other, "3": kubelet} {
			files = append(files, filepath.Join(dir, name))
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(files)
		list, err := Compile(files, Node{}, nil)
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), "runtime") {
				t.Errorf("%s: error %v, want one that names the missing runtime", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := strings.Join(list.Services[2].After, " "); got != c.want {
			t.Errorf("%s: the kubelet comes after %q, want %q", c.name, got, c.want)
		}
	}
}
