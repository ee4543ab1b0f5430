package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A pod whose image is pulled once, from a registry inside the tester, and must be
// there at every later boot, when there is no registry.
const (
	registryAddress    = "127.0.0.1:5000"
	pulledManifestPath = "etc/kubernetes/manifests/pulled.yaml"
	pulledManifest     = `apiVersion: v1
kind: Pod
metadata:
  name: pulled
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 2
  containers:
    - name: pulled
      image: 127.0.0.1:5000/pulled:1
      imagePullPolicy: IfNotPresent
      args: [sleep]
`
)

// checkPulled demands that the pod runs; pull has its image fetched.
func (g *guest) checkPulled(pull bool) error {
	if pull {
		stop, err := serveImage(registryAddress)
		if err != nil {
			return err
		}
		defer stop()
		manifest := filepath.Join(g.host, pulledManifestPath)
		if err := os.WriteFile(manifest, []byte(pulledManifest), 0o600); err != nil {
			return err
		}
		if err := errors.Join(synced(manifest), synced(filepath.Dir(manifest))); err != nil {
			return err
		}
	}
	err := within(podCeiling, func() error {
		all, err := readProcesses(g.proc)
		if err != nil {
			return err
		}
		if !hasContainer(containers(all), "k8s_pulled_pulled-") {
			return fmt.Errorf("the pod of the pulled image did not start within %s", podCeiling)
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.say("data: the pulled image runs, pulled in this boot: %t", pull)
	return nil
}

// checkNoWipe demands that the runtime never spoke of wiping images or its whole
// storage. (That cri-o drops the containers of the last boot is said as a warning
// each time.)
func (g *guest) checkNoWipe() error {
	logs := filepath.Join(g.host, "var/log/garboard")
	b, err := os.ReadFile(filepath.Join(logs, "crio.log"))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = os.ReadFile(filepath.Join(logs, "containerd.log"))
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "/var/lib/garboard/images") {
			g.say("data: runtime: %s", strings.TrimSpace(line))
		}
		if low := strings.ToLower(line); strings.Contains(low, "wipe images") || strings.Contains(low, "wiping") || strings.Contains(low, "failed to remove image") {
			return fmt.Errorf("the runtime: %s", strings.TrimSpace(line))
		}
	}
	return nil
}

type blob struct {
	kind string
	data []byte
}

func (b blob) digest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b.data)) }

func (b blob) descriptor() map[string]any {
	return map[string]any{"mediaType": b.kind, "digest": b.digest(), "size": len(b.data)}
}

// serveImage serves an image of one file, this program, by the pulling half of the
// OCI distribution protocol.
func serveImage(address string) (stop func(), err error) {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = w.WriteHeader(&tar.Header{Name: "pulled", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write(program)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	const oci = "application/vnd.oci.image."
	layer := blob{oci + "layer.v1.tar", archive.Bytes()}
	config, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/pulled"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.digest()}}})
	if err != nil {
		return nil, err
	}
	settings := blob{oci + "config.v1+json", config}
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": oci + "manifest.v1+json",
		"config": settings.descriptor(), "layers": []any{layer.descriptor()}})
	if err != nil {
		return nil, err
	}
	manifest := blob{oci + "manifest.v1+json", text}
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/{$}", func(http.ResponseWriter, *http.Request) {})
	serve := func(b blob, paths ...string) {
		for _, p := range paths {
			mux.HandleFunc(p, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", b.kind)
				w.Header().Set("Docker-Content-Digest", b.digest())
				w.Header().Set("Content-Length", fmt.Sprint(len(b.data)))
				if r.Method == http.MethodGet {
					w.Write(b.data) // a client that went away asks again
				}
			})
		}
	}
	serve(manifest, "/v2/pulled/manifests/1", "/v2/pulled/manifests/"+manifest.digest())
	for _, b := range []blob{settings, layer} {
		serve(b, "/v2/pulled/blobs/"+b.digest())
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: mux}
	go server.Serve(l) // ends with Close
	return func() { server.Close() }, nil
}
