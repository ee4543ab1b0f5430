package supervise

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"garboard.local/init/table"
)

func execProbe(script string, failures int) *table.Probe {
	return &table.Probe{Exec: []string{"/bin/sh", "-c", script}, PeriodMillis: 5, TimeoutMillis: 30_000, Failures: failures}
}

// A service whose liveness probe fails too often in a row is ended by its grace
// and started again; failures that are not in a row do not count.
func TestLivenessRestarts(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := sh("a", "", "trap 'echo asked; exit 0' TERM; : > "+dir+"/up; while :; do sleep 0.01; done")
	s.GraceSeconds = 30
	s.Ready = execProbe("test -e "+dir+"/up", 0)
	// Fails every other time until the file is there, then always.
	s.Live = execProbe("test ! -e "+dir+"/ill || exit 1; if test -e "+dir+"/odd; then rm "+dir+"/odd; exit 1; fi; echo x >> "+dir+"/odd; echo x >> "+dir+"/count", 2)
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: ready", 1)
	for { // four rounds of a success and a failure
		if b, _ := os.ReadFile(filepath.Join(dir, "count")); len(b) >= 8 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if strings.Contains(l.text(), "probe failed") {
		t.Errorf("failures that are not in a row count:\n%s", l.text())
	}
	if err := os.WriteFile(filepath.Join(dir, "ill"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l.waitFor("service a: liveness probe failed 2 times in a row", 1)
	l.waitFor("service a: liveness probe failed, SIGTERM, at most 30s", 1)
	l.waitFor("service a: exited: exit status 0, restart in ", 1)
	l.waitFor("service a: started", 2)
}

// Nothing else is probed before the startup probe has succeeded, and one that
// fails too often ends the run.
func TestStartupComesFirst(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := sh("a", "", "exec sleep 1000")
	s.Startup = execProbe("echo x >> "+dir+"/tries; test $(wc -l < "+dir+"/tries) -ge 3", 10)
	s.Live = execProbe("test -e "+dir+"/tries && test $(wc -l < "+dir+"/tries) -ge 3", 1)
	s.Ready = execProbe("test $(wc -l < "+dir+"/tries) -ge 3", 0)
	never := sh("b", "", "exec sleep 1000")
	never.Startup = execProbe("exit 1", 3)
	never.Restart = table.RestartNever
	v, l := supervisor(t, s, never)
	v.Start("a")
	v.Start("b")
	l.waitFor("service a: ready", 1)
	l.waitFor("service b: startup probe failed 3 times in a row", 1)
	l.waitFor("service b: exited: signal: terminated", 1)
	if strings.Contains(l.text(), "service a: liveness") || strings.Contains(l.text(), "service b: ready") {
		t.Errorf("lines:\n%s", l.text())
	}
}

// Readiness may take several successes in a row.
func TestSuccessesInARow(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := sh("a", "", "exec sleep 1000")
	s.Ready = execProbe("echo x >> "+dir+"/tries; n=$(wc -l < "+dir+"/tries); test $n -ne 2", 0)
	s.Ready.Successes = 3
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: ready", 1)
	// One success, a failure, three successes.
	if b, err := os.ReadFile(filepath.Join(dir, "tries")); err != nil || len(b) != 10 {
		t.Errorf("%d attempts (%v), want 5", len(b)/2, err)
	}
}

// Liveness by TCP: the service is left alone while somebody listens.
func TestLivenessByTCP(t *testing.T) {
	if !inChild(t) {
		return
	}
	n, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := sh("a", "", "exec sleep 1000")
	s.Live = &table.Probe{TCP: n.Addr().String(), PeriodMillis: 5, TimeoutMillis: 30_000, Failures: 1}
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: ready", 1)
	n.Close()
	l.waitFor("service a: liveness probe failed 1 times in a row", 1)
	l.waitFor("service a: started", 2)
}

// A shutdown is no illness: the probes of a service that is being ended are silent.
func TestProbesAreSilentInAShutdown(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := sh("a", "", "trap 'touch "+dir+"/ill; while ! test -e "+dir+"/tried; do sleep 0.01; done; exit 0' TERM; : > "+dir+"/up; while :; do sleep 0.01; done")
	s.GraceSeconds = 30
	s.Ready = execProbe("test -e "+dir+"/up", 0)
	s.Live = execProbe("test ! -e "+dir+"/ill || { touch "+dir+"/tried; exit 1; }", 1)
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: ready", 1)
	v.NoMoreRestarts()
	if v.Stop(t.Context(), "") {
		t.Error("it had to be killed")
	}
	l.waitFor("service a: ended: exit status 0", 1)
	if strings.Contains(l.text(), "probe failed") {
		t.Errorf("lines:\n%s", l.text())
	}
}
