package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const bundleConfig = `{"annotations":{"io.kubernetes.cri.container-type":"TYPE","io.kubernetes.cri.container-name":"hello",
"io.kubernetes.cri.sandbox-name":"hello-node","io.kubernetes.cri.sandbox-namespace":"default","io.kubernetes.cri.sandbox-uid":"u"}}`

// shimNode is a node with containerd and one pod.
func shimNode(t *testing.T) (files map[string]string, bundles string) {
	files, bundles = map[string]string{}, t.TempDir()
	addProcess(files, 1, 0, 1, "/usr/lib/garboard/init", "/init", "/init")
	addProcess(files, 60, 1, 200, "/usr/bin/containerd", "/garboard/containerd", "/usr/bin/containerd")
	addProcess(files, 100, 1, 400, "/usr/bin/"+shimProgram, "/garboard/containerd", "/usr/bin/"+shimProgram, "-id", "p0")
	addProcess(files, 101, 100, 401, "/pause", "/../../kubepods/besteffort/podu/p0", "/pause")
	addProcess(files, 102, 100, 402, "/hello", "/../../kubepods/besteffort/podu/c0", "/hello")
	for id, kind := range map[string]string{"p0": "sandbox", "c0": "container"} {
		if err := os.Mkdir(filepath.Join(bundles, id), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bundles, id, "config.json"), []byte(strings.Replace(bundleConfig, "TYPE", kind, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return files, bundles
}

func TestShimContainers(t *testing.T) {
	files, bundles := shimNode(t)
	all, err := readProcesses(fakeProc(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if name, err := runtimeProgram(all); name != "containerd" || err != nil {
		t.Errorf("runtime %q, %v", name, err)
	}
	for pid, p := range all {
		if p.stray() {
			t.Errorf("%d %s is taken for a stray", pid, p.exe)
		}
	}
	if p := (process{pid: 9, ppid: 60, exe: shimProgram, cgroup: "/x"}); !p.stray() {
		t.Error("a shim that does not belong to PID 1 is no stray")
	}
	before := shimContainers(all, bundles)
	if len(before) != 2 || before["k8s_POD_hello-node_default_u"].processes[101] != 401 || before["k8s_hello_hello-node_default_u"].processes[102] != 402 {
		t.Fatalf("containers %v", before)
	}
	// Another process in the same container, one that is not started, one without a bundle.
	addProcess(files, 102, 100, 900, "/hello", "/../../kubepods/besteffort/podu/c0", "/hello")
	if all, err = readProcesses(fakeProc(t, files)); err != nil {
		t.Fatal(err)
	}
	if diff := changes(before, shimContainers(all, bundles)); len(diff) != 1 {
		t.Errorf("changes %q", diff)
	}
	addProcess(files, 102, 100, 402, "/usr/bin/crun", "/../../kubepods/besteffort/podu/c0", "crun", "init")
	if all, err = readProcesses(fakeProc(t, files)); err != nil {
		t.Fatal(err)
	}
	if c := shimContainers(all, bundles)["k8s_hello_hello-node_default_u"]; len(c.processes) != 0 {
		t.Errorf("a container that is created and not started has processes %v", c.processes)
	}
	if err := os.WriteFile(filepath.Join(bundles, "c0/config.json"), []byte(`{"annotations":{}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := shimContainers(all, bundles); len(got) != 1 {
		t.Errorf("containers %v, want one: the other has no name", got)
	}
	if _, err := runtimeProgram(map[int]process{1: {pid: 1}}); err == nil {
		t.Error("a node without a runtime has one")
	}
}

// frame is a gRPC message of strings in the fields 1, 2, ...
func frame(fields ...string) []byte {
	var b []byte
	for i, f := range fields {
		b = append(b, byte(i+1)<<3|2)
		b = binary.AppendUvarint(b, uint64(len(f)))
		b = append(b, f...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

func TestCRIVersion(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer []byte
		status string
		want   string // a version, or part of an error
		fails  bool
	}{
		{"containerd", frame("0.1.0", "containerd", "v2.4.2", "v1"), "0", "v2.4.2", false},
		{"long strings", frame("0.1.0", strings.Repeat("x", 300), "1.36.1", "v1"), "0", "1.36.1", false},
		{"no version", frame("0.1.0", "containerd"), "0", "tells no version", true},
		{"cut short", frame("0.1.0", "containerd", "v2.4.2")[:12], "0", "not one uncompressed message", true},
		{"not ready", nil, "14", "grpc-status \"14\"", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			var protocols http.Protocols
			protocols.SetUnencryptedHTTP2(true)
			s := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/runtime.v1.RuntimeService/Version" {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.Header().Set("Trailer", "Grpc-Status")
				w.Write(c.answer)
				w.Header().Set("Grpc-Status", c.status)
			})}
			go s.Serve(l)
			defer s.Close()
			got, err := criVersion(t.Context(), socket)
			if c.fails && (err == nil || !strings.Contains(err.Error(), c.want)) || !c.fails && (err != nil || got != c.want) {
				t.Errorf("version %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add(frame("0.1.0", "containerd", "v2.4.2", "v1"))
	f.Add([]byte{0, 0, 0, 0, 2, 0x1a, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := parseVersion(b); err == nil && !bytes.Contains(b, []byte(v)) {
			t.Errorf("%q: version %q", b, v)
		}
	})
}
