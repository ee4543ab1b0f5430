package supervise

import (
	"context"
	"net"
	"time"

	"garboard.local/init/table"
)

const (
	defaultPeriod  = 30 * time.Millisecond
	defaultTimeout = time.Second
)

// probe tries once whether a service is as it should be; which names the probe.
func (s *service) probe(ctx context.Context, which string, p *table.Probe, of *Process) error {
	ctx, cancel := context.WithTimeout(ctx, millis(p.TimeoutMillis, defaultTimeout))
	defer cancel()
	var d net.Dialer
	switch {
	case p.Unix != "":
		c, err := d.DialContext(ctx, "unix", p.Unix)
		if err != nil {
			return err
		}
		return c.Close()
	case p.TCP != "":
		c, err := d.DialContext(ctx, "tcp", p.TCP)
		if err != nil {
			return err
		}
		return c.Close()
	case len(p.Exec) > 0:
		return s.exec(ctx, which, p.Exec, of, false)
	}
	return nil
}

func millis(n int, def time.Duration) time.Duration {
	if n <= 0 {
		return def
	}
	return time.Duration(n) * time.Millisecond
}
