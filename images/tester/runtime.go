package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// The container runtimes that a node may have, by the names of their programs,
// and where they speak the CRI.
var runtimeSockets = map[string]string{
	"crio":       "/run/crio/crio.sock",
	"containerd": "/run/containerd/containerd.sock",
}

const shimProgram = "containerd-shim-runc-v2"

// shimBundles holds a directory for each container that containerd has made and
// not yet cleaned away, the one that holds a pod's namespaces included.
const shimBundles = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"

// runtimeProgram is the name of the runtime that PID 1 runs.
func runtimeProgram(all map[int]process) (string, error) {
	for name := range runtimeSockets {
		if _, ok := service(all, name); ok {
			return name, nil
		}
	}
	return "", errors.New("no container runtime runs")
}

// shimContainers finds containers below containerd's shims, of which each pod
// has one. A container's process is known by its cgroup, its name by the bundle.
func shimContainers(all map[int]process, bundles string) map[string]container {
	found := map[string]container{}
	dirs, err := os.ReadDir(bundles)
	if err != nil {
		return found // the node has another runtime
	}
	for _, d := range dirs {
		b, err := os.ReadFile(filepath.Join(bundles, d.Name(), "config.json"))
		if err != nil {
			continue // it goes or comes
		}
		name, err := bundleName(b)
		if err != nil {
			continue // half written
		}
		c := container{id: d.Name(), processes: map[int]uint64{}}
		for _, p := range all {
			if all[p.ppid].exe == shimProgram && path.Base(p.cgroup) == c.id && !strings.HasPrefix(p.comm, "crun") {
				c.processes[p.pid] = p.start
			}
		}
		found[name] = c
	}
	return found
}

// bundleName makes of a bundle's config.json the name that cri-o gives a
// container, without the attempt.
func bundleName(config []byte) (string, error) {
	var c struct{ Annotations map[string]string }
	if err := json.Unmarshal(config, &c); err != nil {
		return "", err
	}
	const prefix = "io.kubernetes.cri."
	name := c.Annotations[prefix+"container-name"]
	if c.Annotations[prefix+"container-type"] == "sandbox" {
		name = "POD"
	}
	words := []string{"k8s", name}
	for _, key := range []string{"sandbox-name", "sandbox-namespace", "sandbox-uid"} {
		words = append(words, c.Annotations[prefix+key])
	}
	for _, w := range words {
		if w == "" {
			return "", errors.New("annotations are missing")
		}
	}
	return strings.Join(words, "_"), nil
}

// criVersion asks a runtime for its version over its socket, as the kubelet
// does: one gRPC call, written out, with an empty request.
func criVersion(ctx context.Context, socket string) (string, error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/runtime.v1.RuntimeService/Version", strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return "", err
	}
	if s := resp.Trailer.Get("Grpc-Status"); s != "0" {
		return "", fmt.Errorf("CRI Version: %s, grpc-status %q %s", resp.Status, s, resp.Trailer.Get("Grpc-Message"))
	}
	return parseVersion(b)
}

// parseVersion takes runtime_version (field 3) out of a VersionResponse, whose
// fields are all strings, behind gRPC's five bytes of framing.
func parseVersion(b []byte) (string, error) {
	if len(b) < 5 || b[0] != 0 || int(binary.BigEndian.Uint32(b[1:5])) != len(b)-5 {
		return "", fmt.Errorf("CRI Version: %q is not one uncompressed message", b)
	}
	for b = b[5:]; len(b) > 0; {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag&7 != 2 {
			break
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			break
		}
		value := b[n+m:][:size]
		if tag>>3 == 3 {
			return string(value), nil
		}
		b = b[n+m+int(size):]
	}
	return "", errors.New("CRI Version: the answer tells no version")
}
