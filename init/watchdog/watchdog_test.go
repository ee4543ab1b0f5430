package watchdog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Config
		bad  bool
	}{
		{"", Config{Timeout: DefaultTimeout}, false},
		{"soft", Config{Soft: true, Timeout: DefaultTimeout}, false},
		{"soft, runtime,30s", Config{Soft: true, Runtime: true, Timeout: 30 * time.Second}, false},
		{"off", Config{Off: true, Timeout: DefaultTimeout}, false},
		{"2m", Config{Timeout: 2 * time.Minute}, false},
		{"9s", Config{Timeout: DefaultTimeout}, true},
		{"11m", Config{Timeout: DefaultTimeout}, true},
		{"10.5s", Config{Timeout: DefaultTimeout}, true},
		{"hard", Config{Timeout: DefaultTimeout}, true},
	} {
		if got, err := Parse(tt.in); got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%q: %+v, %v", tt.in, got, err)
		}
	}
}

// scene is the life of a node in steps of a quarter of a minute.
type scene struct {
	r        *Rule
	now      time.Time
	restarts int
	said     []string
	fed      bool
}

func newScene(strict bool) *scene {
	s := &scene{now: time.Unix(1000, 0)}
	s.r = NewRule(s.now)
	s.r.Strict = strict
	s.r.Restart = func() { s.restarts++ }
	s.r.Printf = func(format string, args ...any) { s.said = append(s.said, fmt.Sprintf(format, args...)) }
	return s
}

// pass lets time pass with PID 1's loops turning or not.
func (s *scene) pass(d time.Duration, turns bool, rt Runtime) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(15 * time.Second)
		if turns {
			s.r.Turned(s.now)
		}
		s.r.Saw(rt, s.now)
		s.fed = s.r.Feed(s.now)
	}
}

func TestRule(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name     string
		strict   bool
		story    func(*scene)
		fed      bool
		restarts int
		said     string // of the last line
	}{
		{"all is well for a day", true, func(s *scene) { s.pass(day, true, Answers) }, true, 0, ""},
		{"PID 1 hangs", false, func(s *scene) { s.pass(time.Minute, false, Answers) }, false, 0, "loops have not turned"},
		{"for a moment only", false, func(s *scene) { s.pass(45*time.Second, false, Answers) }, true, 0, ""},
		{"a runtime that crashes all day long", false, func(s *scene) { s.pass(day, true, Down) }, true, 0, ""},
		{"the same, and that is not wanted", true, func(s *scene) { s.pass(RuntimeLimit, true, Down) }, false, 0, "no answer of the runtime"},
		{"no runtime yet, which is not wanted", true, func(s *scene) { s.pass(RuntimeLimit-time.Minute, true, Down) }, true, 0, ""},
		{"hung for a minute", false, func(s *scene) { s.pass(time.Minute, true, Silent); s.pass(time.Minute, true, Answers) }, true, 0, ""},
		{"hung: restarted once", false, func(s *scene) { s.pass(4*time.Minute, true, Silent) }, true, 1, "restarting it"},
		{"hung, and the restart helps", false, func(s *scene) {
			s.pass(3*time.Minute, true, Silent)
			s.pass(time.Minute, true, Down)
			s.pass(day, true, Answers)
		}, true, 1, "restarting it"},
		{"hung, and cannot be killed", false, func(s *scene) { s.pass(6*time.Minute, true, Silent) }, false, 1, "did not help"},
		{"hung again and again is restarted again and again", false, func(s *scene) {
			for range 5 {
				s.pass(3*time.Minute, true, Silent)
				s.pass(time.Minute, true, Down)
			}
		}, true, 5, "restarting it"},
		{"recovers in the last moment", false, func(s *scene) { s.pass(6*time.Minute, true, Silent); s.pass(time.Minute, true, Answers) }, true, 1, "fed again"},
		{"a shutdown within its ceiling", true, func(s *scene) {
			s.r.Ends(20*time.Minute, s.now)
			s.pass(20*time.Minute, true, Down)
		}, true, 0, ""},
		{"a hung shutdown", false, func(s *scene) {
			s.r.Ends(2*time.Minute, s.now)
			s.pass(time.Minute, true, Down)
			s.r.Ends(time.Hour, s.now) // said again: the first counts
			s.pass(2*time.Minute, true, Down)
		}, false, 0, "has not come to its end"},
		{"a runtime hung in a shutdown is left alone", false, func(s *scene) {
			s.r.Ends(time.Hour, s.now)
			s.pass(30*time.Minute, true, Silent)
		}, true, 0, ""},
		{"PID 1 hangs in a shutdown", false, func(s *scene) {
			s.r.Ends(time.Hour, s.now)
			s.pass(2*time.Minute, false, Down)
		}, false, 0, "loops have not turned"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(tt.strict)
			tt.story(s)
			last := ""
			if len(s.said) > 0 {
				last = s.said[len(s.said)-1]
			}
			if s.fed != tt.fed || s.restarts != tt.restarts || !strings.Contains(last, tt.said) || (tt.said == "") != (last == "") {
				t.Errorf("fed %t, %d restarts, said %q", s.fed, s.restarts, s.said)
			}
		})
	}
}

// A look that hangs for ever stops the feeding, not the feeder.
func TestWatch(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			count := &counter{}
			release := make(chan struct{})
			rule := NewRule(time.Now())
			rule.Printf = t.Logf
			turns := 0
			w := &Watch{Device: count, Period: 10 * time.Second, Rule: rule, Now: time.Now, Printf: t.Logf, Guard: func(string) {},
				Turn: func() {
					turns++
					if hangs && turns > 3 {
						<-release
					}
				},
				Runtime: func(context.Context) Runtime { return Answers },
				Ending:  func() (time.Duration, bool) { return 0, false }}
			stop, done := make(chan struct{}), make(chan struct{})
			go func() { defer close(done); w.Run(stop) }()
			time.Sleep(10*time.Minute + time.Second)
			close(stop)
			close(release)
			<-done
			synctest.Wait()
			want := 60
			if hangs {
				want = 6 // three turns, 20 s, and 45 s of patience
			}
			if count.n != want {
				t.Errorf("hangs %t: fed %d times, want %d", hangs, count.n, want)
			}
		})
	}
}

type counter struct{ n int }

func (c *counter) Feed() error { c.n++; return nil }

func TestAsk(t *testing.T) {
	dir := t.TempDir()
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	srv := &http.Server{Protocols: &p}
	go srv.Serve(listen("lives"))
	t.Cleanup(func() { srv.Close() })
	listen("stopped") // the kernel accepts, nobody reads
	for name, ok := range map[string]bool{"lives": true, "stopped": false, "gone": false} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if err := Ask(ctx, filepath.Join(dir, name)); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestArmLoadsUntilThereIsOne(t *testing.T) {
	for _, tt := range []struct {
		soft  bool
		makes string // driver that finds a device
		want  int    // drivers loaded
	}{
		{false, "", len(Drivers)}, {false, "i6300esb", 2}, {true, "i6300esb", 2}, {true, SoftDriver, len(Drivers) + 1}, {false, SoftDriver, len(Drivers)},
	} {
		path := filepath.Join(t.TempDir(), "watchdog")
		var loaded []string
		d, err := Arm(Config{Soft: tt.soft, Timeout: time.Minute}, path, func(m string) error {
			loaded = append(loaded, m)
			if m == tt.makes {
				return os.WriteFile(path, nil, 0o600)
			}
			return errors.New("no such module")
		})
		if len(loaded) != tt.want || slices.Contains(loaded, SoftDriver) && !tt.soft {
			t.Errorf("%+v: loaded %q", tt, loaded)
		}
		// A file is no watchdog: opened, and the driver's refusal is told.
		found := len(loaded) > 0 && loaded[len(loaded)-1] == tt.makes
		if (d != nil) != found || (err != nil) != found {
			t.Errorf("%+v: %+v, %v", tt, d, err)
		}
		if d != nil {
			if disarmed, err := d.Disarm(); disarmed || err != nil || d.Feed() != nil {
				t.Errorf("%+v: disarmed %t, %v", tt, disarmed, err)
			}
		}
	}
}
