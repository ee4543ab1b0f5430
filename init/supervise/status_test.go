package supervise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"garboard.local/init/table"
)

// The status of a service stays readable after its end, in memory and in the file.
func TestStatusStaysReadable(t *testing.T) {
	if !inChild(t) {
		return
	}
	never := func(name, script string) table.Service {
		s := sh(name, "", script)
		s.Restart = table.RestartNever
		return s
	}
	missing := never("missing", "")
	missing.Command = []string{"/nonexistent/program"}
	l := &lines{t: t}
	path := filepath.Join(t.TempDir(), "run", "services.json")
	v := New(Options{Reaper: reaper(t), Printf: l.printf, LogDir: t.TempDir(), Status: path,
		Timing: Timing{time.Millisecond, time.Millisecond, time.Hour}}, []table.Service{
		never("fails", "exit 3"), never("killed", "kill -9 $$"), missing, sh("stays", "", "exec sleep 1000"), sh("idle", "", "exec sleep 1000"),
	})
	closed := false
	defer func() {
		if !closed {
			v.Close()
		}
	}()
	before := time.Now().Add(-time.Second)
	for _, name := range []string{"fails", "killed", "missing", "stays"} {
		v.Start(name)
	}
	l.waitFor("service fails: exited: exit status 3", 1)
	l.waitFor("service killed: exited: signal: killed", 1)
	l.waitFor("service missing: exited: ", 1)
	l.waitFor("service stays: started", 1)
	if err := syscall.Kill(v.Status()[3].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.waitFor("service stays: started", 2)

	// The file follows, and is always whole.
	var got []table.ServiceStatus
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // not written yet
		}
		got = nil
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s is not whole: %v\n%s", path, err, b)
		}
		if reflect.DeepEqual(got, v.Status()) && got[0].State == table.StateEnded && got[1].State == table.StateEnded && got[2].State == table.StateEnded && got[3].State == table.StateReady && got[3].Restarts == 1 {
			break
		}
	}
	if !reflect.DeepEqual(got, v.Status()) {
		t.Fatalf("the file has\n%+v\nthe supervisor\n%+v\n%s", got, v.Status(), l.text())
	}
	for i, want := range []table.ServiceStatus{
		{Name: "fails", State: table.StateEnded, Last: &table.ServiceExit{Code: 3}},
		{Name: "killed", State: table.StateEnded, Last: &table.ServiceExit{Code: 137, Signal: 9}},
		{Name: "missing", State: table.StateEnded},
		{Name: "stays", State: table.StateReady, Restarts: 1, Last: &table.ServiceExit{Code: 137, Signal: 9}},
		{Name: "idle", State: table.StateWaiting},
	} {
		s := got[i]
		if s.Name != want.Name || s.State != want.State || s.Restarts != want.Restarts || (s.PID != 0) != (want.Name == "stays") || (s.Error != "") != (want.Name == "missing") ||
			(s.Started != nil) != (want.Name != "missing" && want.Name != "idle") || (s.Last == nil) != (want.Last == nil) {
			t.Errorf("%s: %+v", want.Name, s)
			continue
		}
		if want.Last != nil && (s.Last.Code != want.Last.Code || s.Last.Signal != want.Last.Signal || s.Last.Started.Before(before) || s.Last.Finished.Before(s.Last.Started)) {
			t.Errorf("%s ended by %+v", want.Name, s.Last)
		}
	}
	closed = true
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// A place that cannot be written to is said once and holds nobody up.
func TestStatusWithoutAPlace(t *testing.T) {
	if !inChild(t) {
		return
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &lines{t: t}
	v := New(Options{Reaper: reaper(t), Printf: l.printf, LogDir: t.TempDir(), Status: filepath.Join(file, "services.json"),
		Timing: Timing{time.Millisecond, time.Millisecond, time.Hour}}, []table.Service{sh("a", "", "exit 1")})
	v.Start("a")
	l.waitFor("service a: started", 5)
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	l.waitFor("services: their state is not in ", 1)
}
