package chaos

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"garboard.local/qemu/chaos/content"
)

// Registry is a container registry on the loopback address that can be pulled
// from (OCI distribution specification, "Pull"). Its images, whose files follow
// from a seed, are made when they are asked for.
type Registry struct {
	Port int

	seed    uint64
	arch    string
	payload []byte
	server  *http.Server

	mu    sync.Mutex
	made  map[int]*madeImage
	blobs map[string][]byte // by digest
}

type madeImage struct {
	manifest []byte
	digest   string // of the manifest
	sum      string
}

// guestRepository is the repository's name on the node (see images/chaos).
const guestRepository = "127.0.0.1:5000/chaos"

// NewRegistry starts one; payload is the program of its images.
func NewRegistry(seed uint64, arch string, payload []byte) (*Registry, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	r := &Registry{
		Port: l.Addr().(*net.TCPAddr).Port, seed: seed, arch: arch, payload: payload,
		made: map[int]*madeImage{}, blobs: map[string][]byte{},
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go r.server.Serve(l)
	return r, nil
}

// Close ends it.
func (r *Registry) Close() error { return r.server.Close() }

// Sum is the content of an image by its name on the node; "" if there is none.
func (r *Registry) Sum(ref string) string {
	m, err := r.image(number(ref))
	if err != nil {
		return ""
	}
	return m.sum
}

func (r *Registry) image(i int) (*madeImage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.made[i]; m != nil {
		return m, nil
	}
	if i < 0 {
		return nil, fmt.Errorf("there is no image %d", i)
	}
	img, files, err := buildImage(r.seed, i, r.arch, r.payload)
	if err != nil {
		return nil, fmt.Errorf("image %d: %w", i, err)
	}
	m := &madeImage{sum: content.Sum(files)}
	if m.manifest, err = img.RawManifest(); err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	if r.blobs[config.String()], err = img.RawConfigFile(); err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		if err := r.keep(l); err != nil {
			return nil, err
		}
	}
	m.digest = digest.String()
	r.made[i] = m
	return m, nil
}

// keep makes a layer a blob. Those that images share are kept once.
func (r *Registry) keep(l v1.Layer) error {
	digest, err := l.Digest()
	if err != nil || r.blobs[digest.String()] != nil {
		return err
	}
	rc, err := l.Compressed()
	if err != nil {
		return err
	}
	defer rc.Close()
	r.blobs[digest.String()], err = io.ReadAll(rc)
	return err
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	if path == "" {
		return // "this is a registry"
	}
	var data []byte
	if tag, ok := strings.CutPrefix(path, "chaos/manifests/"); ok {
		if m := r.manifest(tag); m != nil {
			data = m.manifest
			w.Header().Set("Content-Type", manifestType)
			w.Header().Set("Docker-Content-Digest", m.digest)
		}
	} else if digest, ok := strings.CutPrefix(path, "chaos/blobs/"); ok {
		r.mu.Lock()
		data = r.blobs[digest]
		r.mu.Unlock()
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	if data == nil {
		http.NotFound(w, q)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if q.Method != http.MethodHead {
		w.Write(data) // the node's power may go meanwhile
	}
}

// manifest finds an image by its number or its digest.
func (r *Registry) manifest(tag string) *madeImage {
	if i, err := strconv.Atoi(tag); err == nil {
		m, _ := r.image(i)
		return m
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.made {
		if m.digest == tag {
			return m
		}
	}
	return nil
}

func number(ref string) int {
	i := -1
	if n, err := fmt.Sscanf(ref, guestRepository+":%d", &i); n != 1 || err != nil {
		return -1
	}
	return i
}
