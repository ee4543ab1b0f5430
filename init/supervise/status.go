package supervise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// report writes the state of all services to a file at each change, until the
// supervisor is closed. Changes that come while it writes are written together.
func (v *Supervisor) report(path string) {
	failed := false
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		v.printf("services: %v", err)
	}
	for {
		select {
		case <-v.dirty:
		case <-v.ctx.Done():
			return
		}
		err := writeStatus(path, v.Status())
		if err != nil && !failed {
			v.printf("services: their state is not in %s: %v", path, err)
		}
		failed = err != nil
	}
}

// touch says that a service's state has changed. It never waits.
func (v *Supervisor) touch() {
	select {
	case v.dirty <- struct{}{}:
	default:
	}
}

// writeStatus replaces a file by a whole one.
func writeStatus(path string, list []table.ServiceStatus) error {
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Status is how each service is, in the table's order.
func (v *Supervisor) Status() []table.ServiceStatus {
	out := make([]table.ServiceStatus, 0, len(v.services))
	for _, s := range v.services {
		out = append(out, s.status())
	}
	return out
}

func (s *service) status() table.ServiceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := table.ServiceStatus{Name: s.Name, State: s.state.String(), Up: s.up, Restarts: max(0, s.starts-1), Last: s.last, Previous: s.earlier, Error: s.failure}
	if s.proc != nil {
		st.PID = s.proc.Pid
	}
	if !s.started.IsZero() {
		at := s.started.Round(0).UTC()
		st.Started = &at
	}
	return st
}

// exited notes how a run ended, for the status.
func exited(ws unix.WaitStatus, started time.Time) *table.ServiceExit {
	e := &table.ServiceExit{Started: started.Round(0).UTC(), Finished: time.Now().Round(0).UTC(), Code: ws.ExitStatus()}
	if ws.Signaled() {
		e.Signal = int(ws.Signal())
		e.Code = 128 + e.Signal
	}
	return e
}
