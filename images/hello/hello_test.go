package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pod     string
		minutes int
		sig     os.Signal
		want    []string
	}{
		{"named by the downward API", "hello-node", 0, syscall.SIGTERM, []string{
			"hello: running as pod hello-node", "hello: began at uptime 9.81", "hello: SIGTERM, bye"}},
		{"named by its hostname", "", 2, syscall.SIGINT, []string{
			"hello: running as pod box", "hello: began at uptime 9.81", "hello: still here after 1 min", "hello: still here after 2 min", "hello: SIGINT, bye"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			stop, tick := make(chan os.Signal), make(chan time.Time)
			go func() {
				for range tt.minutes {
					tick <- time.Time{}
				}
				stop <- tt.sig
			}()
			hello{out: &out, name: tt.pod, hostname: "box", kernel: "6.12.0", uptime: "9.81", stop: stop, tick: tick}.run()
			want := append([]string{"hello: hello from a pod on a Garboard node", "hello: hostname box", "hello: kernel Linux 6.12.0"}, tt.want...)
			if got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestBinaryTakesItsLeave(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "hello")
	for _, arch := range []string{"arm64", ""} { // the host's own last: it is run
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build for %q: %v\n%s", arch, err, out)
		}
	}
	cmd := exec.Command(bin)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var last string
	for in := bufio.NewScanner(pipe); in.Scan(); {
		if last = in.Text(); strings.HasPrefix(last, "hello: running as pod ") {
			cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if err := cmd.Wait(); err != nil || last != "hello: SIGTERM, bye" {
		t.Errorf("last line %q, ended with %v; want the farewell and status 0", last, err)
	}
}
