package qemu

import (
	"fmt"
	"time"
)

// The times of a run that a person watches.
const (
	pressAgain  = 5 * time.Second // a press that PID 1 did not answer is repeated
	bounce      = 2 * time.Second // a ctrl-C this soon after the last is the same one
	bootCeiling = 3 * time.Minute // from QEMU's start to PID 1's word that the boot is done, emulated on a slow host
	downCeiling = 3 * time.Minute // from the first press to the end
)

// action is what the pilot wants done now, and what to tell the person.
type action struct {
	press bool
	kill  bool
	say   string
}

// pilot decides when a run's power button is pressed and when patience ends.
// It knows neither QEMU nor the clock: moments come in, actions go out.
type pilot struct {
	start        time.Time
	runFor       time.Duration // 0: until interrupted
	boot, down   time.Duration // ceilings
	alive        bool          // PID 1 has spoken
	acknowledged bool          // PID 1 said that a shutdown was requested

	presses   int // asked for by a person or by runFor
	interrupt time.Time
	firstAsk  time.Time
	lastPress time.Time
	killed    bool
	killedFor string
}

// interrupted is ctrl-C.
func (p *pilot) interrupted(now time.Time) action {
	if !p.interrupt.IsZero() && now.Sub(p.interrupt) < bounce {
		return action{}
	}
	p.interrupt = now
	switch {
	case p.killed:
		return action{}
	case p.presses < 2:
		return p.press(now, "power button pressed")
	default:
		return p.kill("interrupted three times")
	}
}

// tick looks at the clock.
func (p *pilot) tick(now time.Time) action {
	switch {
	case p.killed:
	case p.presses > 0 && now.Sub(p.firstAsk) >= p.down:
		return p.kill(fmt.Sprintf("it did not power off within %s", p.down))
	case p.presses == 0 && p.runFor > 0 && now.Sub(p.start) >= p.runFor:
		return p.press(now, fmt.Sprintf("%s are over: power button pressed", p.runFor))
	case p.presses == 0 && !p.alive && now.Sub(p.start) >= p.boot:
		return p.kill(fmt.Sprintf("PID 1 said nothing within %s", p.boot))
	case p.presses > 0 && !p.acknowledged && now.Sub(p.lastPress) >= pressAgain:
		// The guest was not listening yet. That is no second request: the node
		// has not seen the first.
		p.lastPress = now
		return action{press: true, say: "the node has not answered: power button pressed again"}
	}
	return action{}
}

func (p *pilot) press(now time.Time, say string) action {
	if p.presses++; p.presses == 1 {
		p.firstAsk = now
	} else {
		say += " again"
	}
	p.lastPress = now
	return action{press: true, say: say}
}

func (p *pilot) kill(why string) action {
	p.killed, p.killedFor = true, why
	return action{kill: true, say: why + ": the machine is stopped"}
}
