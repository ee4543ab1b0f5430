package table

import (
	"slices"
	"strings"
	"testing"
)

func TestBeginAndEnd(t *testing.T) {
	side := Service{Name: "side", Pod: "ns/p", Sidecar: true, Command: []string{"/x"}, Restart: RestartAlways}
	for _, tt := range []struct {
		name   string
		change func(*Service)
		want   string // "" = taken
	}{
		{"a sidecar", func(s *Service) {}, ""},
		{"hooks", func(s *Service) { s.PreStop, s.PostStart = &Hook{Exec: []string{"/p"}}, &Hook{SleepSeconds: 1} }, ""},
		{"a signal", func(s *Service) { s.StopSignal = 31 }, ""},
		{"no signal", func(s *Service) { s.StopSignal = 32 }, "stop signal 32 is not between"},
		{"a sidecar without a pod", func(s *Service) { s.Pod = "" }, "a sidecar belongs to a pod"},
		{"a sidecar that may end", func(s *Service) { s.Restart = RestartNever }, "is always restarted"},
		{"a sidecar that is a task", func(s *Service) { s.Once = true }, "is no task"},
		{"a task with a hook", func(s *Service) { s.Sidecar, s.Once, s.PreStop = false, true, &Hook{SleepSeconds: 1} }, "it has no preStop hook"},
		{"an empty hook", func(s *Service) { s.PostStart = &Hook{} }, "its postStart hook is either"},
		{"a hook that is both", func(s *Service) { s.PreStop = &Hook{Exec: []string{"/p"}, SleepSeconds: 1} }, "its preStop hook is either"},
		{"a hook by name", func(s *Service) { s.PreStop = &Hook{Exec: []string{"p"}} }, "absolute path"},
		{"a sleep backwards", func(s *Service) { s.PreStop = &Hook{SleepSeconds: -1} }, "its preStop hook is either"},
	} {
		s := side
		tt.change(&s)
		tb := good()
		tb.Services = append(tb.Services, s)
		err := tb.Check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	// What comes behind a sidecar may require it.
	tb := good()
	tb.Services = append(tb.Services, side, Service{Name: "m", Pod: "ns/p", Command: []string{"/x"}, Restart: RestartAlways, Requires: []string{"side"}})
	if err := tb.Check(); err != nil {
		t.Error(err)
	}
}

// Programs are what must be in the root image; what a mount brings is not.
func TestPrograms(t *testing.T) {
	s := Service{Command: []string{"/a", "/no"}, PreStop: &Hook{Exec: []string{"/b"}}, PostStart: &Hook{SleepSeconds: 1}, Live: &Probe{Exec: []string{"/c"}},
		Ready: &Probe{Exec: []string{"/mnt/d"}}, Startup: &Probe{TCP: "127.0.0.1:1"}, Mounts: []Mount{{Source: "/s", Target: "/mnt"}}}
	if got := s.Programs(); !slices.Equal(got, []string{"/a", "/b", "/c"}) {
		t.Errorf("%q", got)
	}
}
