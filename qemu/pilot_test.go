package qemu

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPilot(t *testing.T) {
	// Each step is "<second> tick", "<second> int" (ctrl-C), "<second> ack" (PID 1
	// has the request) or "<second> alive"; want lists what is done and when.
	for _, tt := range []struct {
		name   string
		runFor time.Duration
		steps  string
		want   string
	}{
		{"nothing happens", 0, "0 alive,60 tick,6000 tick", ""},
		{"silent PID 1", 0, "179 tick,180 tick,181 tick", "180 kill"},
		{"one ctrl-C", 0, "0 alive,20 int,21 ack,22 tick,100 tick", "20 press"},
		{"a bounced ctrl-C counts once", 0, "0 alive,20 int,21 int,21 ack,22 tick", "20 press"},
		{"three ctrl-C", 0, "0 alive,20 int,20 ack,30 int,40 int,41 tick,50 int", "20 press,30 press,40 kill"},
		{"the node did not listen yet", 0, "0 alive,3 int,7 tick,8 tick,12 tick,13 tick,14 ack,30 tick", "3 press,8 press,13 press"},
		{"for a time", 60 * time.Second, "0 alive,59 tick,60 tick,61 ack,61 tick,90 tick", "60 press"},
		{"ctrl-C before the time is over", 60 * time.Second, "0 alive,30 int,31 ack,60 tick,61 tick", "30 press"},
		{"the shutdown hangs", 0, "0 alive,20 int,21 ack,199 tick,200 tick,201 tick", "20 press,200 kill"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			zero := time.Unix(1000, 0)
			p := &pilot{start: zero, runFor: tt.runFor, boot: bootCeiling, down: downCeiling}
			var got []string
			for step := range strings.SplitSeq(tt.steps, ",") {
				var second int
				var what string
				if _, err := fmt.Sscanf(step, "%d %s", &second, &what); err != nil {
					t.Fatal(err)
				}
				now, a := zero.Add(time.Duration(second)*time.Second), action{}
				switch what {
				case "tick":
					a = p.tick(now)
				case "int":
					a = p.interrupted(now)
				case "ack":
					p.acknowledged = true
				case "alive":
					p.alive = true
				}
				if a.press {
					got = append(got, fmt.Sprintf("%d press", second))
				}
				if a.kill {
					got = append(got, fmt.Sprintf("%d kill", second))
				}
				if (a.press || a.kill) == (a.say == "") {
					t.Errorf("at %d: %+v: done without a word, or said for nothing", second, a)
				}
			}
			if g := strings.Join(got, ","); g != tt.want {
				t.Errorf("got %q, want %q", g, tt.want)
			}
		})
	}
}

func TestJudgeRun(t *testing.T) {
	off := Exit{GuestShutdown: true, Reason: "guest-shutdown"}
	clean := shutdownWord{requested: true, clean: true}
	for _, tt := range []struct {
		name   string
		lines  string
		exit   Exit
		word   shutdownWord
		killed string
		cause  error
		want   string // part of the error; "" = clean
	}{
		{name: "clean", exit: off, word: clean},
		{name: "no word", exit: off, want: "without saying"},
		{name: "unclean", exit: off, word: shutdownWord{requested: true, unclean: "shutdown: unclean: /var busy"}, want: "/var busy"},
		{name: "reboot", exit: Exit{GuestReset: true}, word: clean, want: "rebooted"},
		{name: "the plug", exit: Exit{Reason: "host-signal"}, word: clean, want: "host-signal"},
		{name: "killed", exit: Exit{Reason: "killed"}, killed: "interrupted three times", want: "interrupted three times"},
		{name: "given up", exit: Exit{Reason: "killed"}, cause: errors.New("deadline"), want: "deadline"},
		{name: "QEMU", exit: Exit{Reason: "exited", Err: errors.New("exit status 1")}, want: "exit status 1"},
		{name: "panic", lines: "[    1.000000] Kernel panic - not syncing: x\n", exit: Exit{GuestReset: true}, want: "Kernel panic"},
		{name: "panic, by QMP only", exit: Exit{Panicked: true}, want: "panicked"},
		{name: "an oops is not hidden by a clean end", lines: "[    1.000000] Oops: x: 0000 [#1] SMP\n", exit: off, word: clean, want: "Oops"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := testConsole()
			fmt.Fprint(c, tt.lines)
			err := judgeRun(c, tt.exit, tt.word, tt.killed, tt.cause)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestShutdownWord(t *testing.T) {
	var w shutdownWord
	for _, l := range []string{"[    1.000000] garboard: shutdown requested by power button", "[    2.000000] garboard: shutdown: clean"} {
		w.note(ParseLine(l, time.Time{}))
	}
	if want := (shutdownWord{requested: true, clean: true}); w != want {
		t.Errorf("got %+v, want %+v", w, want)
	}
	w = shutdownWord{}
	w.note(ParseLine("default/x-node/x: garboard: shutdown: clean", time.Time{}))
	if w != (shutdownWord{}) {
		t.Errorf("a pod's line was taken for PID 1's: %+v", w)
	}
}
