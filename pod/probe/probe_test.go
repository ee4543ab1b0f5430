package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	switch os.Getenv("GARBOARD_PROBE_ROLE") {
	case "ill":
		fmt.Println("not well")
		os.Exit(3)
	case "well":
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The loop counts successes and failures in a row.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		loop    Loop
		results string // g good, b bad; the last is repeated
		calls   int
		want    string
	}{
		{"first success", Loop{Successes: 1}, "bbg", 3, ""},
		{"three in a row", Loop{Successes: 3}, "ggbggg", 6, ""},
		{"failures in a row", Loop{Successes: 1, Failures: 3}, "bbb", 3, "failed 3 times in a row"},
		{"watch goes on over failures that are not in a row", Loop{Watch: true, Successes: 1, Failures: 2}, "gbgbgbb", 7, "failed 2 times in a row"},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			c.loop.Period, c.loop.Timeout = time.Nanosecond, time.Minute
			err := c.loop.Run(t.Context(), func(context.Context) error {
				calls++
				if c.results[min(calls, len(c.results))-1] == 'b' {
					return errors.New("bad")
				}
				return nil
			}, &bytes.Buffer{})
			if calls != c.calls || c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d calls, error %v; want %d, %q", calls, err, c.calls, c.want)
			}
		})
	}
}

// The end of the context is no failure of the service.
func TestRunEndsQuietly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := Loop{Watch: true, Failures: 1, Period: time.Hour, Timeout: time.Hour}
	if err := l.Run(ctx, func(context.Context) error { cancel(); return errors.New("bad") }, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}

func check(t *testing.T, words ...string) error {
	t.Helper()
	c, err := New(words)
	if err != nil {
		t.Fatal(err)
	}
	return c(t.Context())
}

func TestChecks(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GARBOARD_PROBE_ROLE", "well")
	if err := check(t, "exec", self); err != nil {
		t.Error(err)
	}
	t.Setenv("GARBOARD_PROBE_ROLE", "ill")
	if err := check(t, "exec", self); err == nil || !strings.Contains(err.Error(), "exit status 3: not well") {
		t.Errorf("error %v", err)
	}
	if err := check(t, "exec", "/nonexistent"); err == nil {
		t.Error("a command that is not there succeeds")
	}
	socket := filepath.Join(t.TempDir(), "s")
	for _, l := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"unix", socket}} {
		n, err := net.Listen(l.network, l.address)
		if err != nil {
			t.Fatal(err)
		}
		address := n.Addr().String()
		if err := check(t, l.network, address); err != nil {
			t.Error(err)
		}
		n.Close()
		if err := check(t, l.network, address); err == nil {
			t.Errorf("%s: success with nobody there", address)
		}
	}
}

func TestHTTP(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/redirect":
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		case r.URL.Path == "/named" && (r.Host != "name" || r.Header.Get("X-A") != "b: c"):
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/ill":
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	for _, s := range []*httptest.Server{httptest.NewServer(h), httptest.NewTLSServer(h)} {
		defer s.Close()
		for path, ok := range map[string]bool{"/": true, "/redirect": true, "/ill": false, "/named": false} {
			if err := check(t, "http", s.URL+path); (err == nil) != ok {
				t.Errorf("%s%s: %v", s.URL, path, err)
			}
		}
		if err := check(t, "http", s.URL+"/named", "Host: name", "X-A: b: c"); err != nil {
			t.Error(err)
		}
	}
}

// TestGRPC has net/http's own HTTP/2 server answer as a gRPC server does.
func TestGRPC(t *testing.T) {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	answers := map[string]string{
		"\x00\x00\x00\x00\x00":                 "\x00\x00\x00\x00\x02\x08\x01", // no service: SERVING
		"\x00\x00\x00\x00\x05\n\x03ill":        "\x00\x00\x00\x00\x02\x08\x02",
		"\x00\x00\x00\x00\x09\n\x07garbage":    "\x00\x00\x00\x00\x01\x0a",
		"\x00\x00\x00\x00\x0c\n\x0aunanswered": "",
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Protocols: &p, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		body, ok := answers[b.String()]
		status := "0"
		if !ok || r.URL.Path != "/grpc.health.v1.Health/Check" {
			status = "5"
		}
		_, _ = w.Write([]byte(body))
		w.Header().Set("Grpc-Status", status)
	})}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	for service, want := range map[string]string{"": "", "ill": "health 2", "garbage": "no HealthCheckResponse", "unanswered": "gRPC status", "unknown": `gRPC status "5"`} {
		err := check(t, "grpc", l.Addr().String(), service)
		if service == "unanswered" {
			want = "not one uncompressed message"
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("service %q: error %v, want %q", service, err, want)
		}
	}
}

func TestMainUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		want int
	}{{"", 2}, {"tcp", 2}, {"--period=0s tcp 127.0.0.1:1", 2}, {"--failures=1 unix /nonexistent", 1}, {"sleep 1ns", 0}, {"sleep long", 2}, {"dance floor", 2}, {"--help", 0}} {
		var diag bytes.Buffer
		if got := Main(t.Context(), strings.Fields(c.args), &diag); got != c.want {
			t.Errorf("%q: status %d, want %d: %s", c.args, got, c.want, diag.String())
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02\x08\x01"))
	f.Add([]byte("\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) { _ = answer(b) })
}
