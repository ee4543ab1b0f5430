package socket

import (
	"sync"
	"time"
)

// limiter lets through a burst of log lines and then one each interval, so that
// a client cannot fill the console or a log file. It counts what it held back.
type limiter struct {
	burst    int
	interval time.Duration

	mu     sync.Mutex
	last   time.Time // when spent was last reduced
	spent  int
	missed int
}

// allow reports whether a line may be written at now, and how many were held
// back since the last one that was.
func (l *limiter) allow(now time.Time) (ok bool, missed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gained := int(now.Sub(l.last) / l.interval); gained > 0 {
		if l.spent -= gained; l.spent < 0 {
			l.spent = 0
		}
		l.last = now
	}
	if l.spent >= l.burst {
		l.missed++
		return false, 0
	}
	l.spent++
	missed, l.missed = l.missed, 0
	return true, missed
}
