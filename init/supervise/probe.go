package supervise

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

const (
	defaultPeriod  = 30 * time.Millisecond
	defaultTimeout = time.Second
)

// probe tries once whether a service is ready.
func (r *Reaper) probe(ctx context.Context, p *table.Probe) error {
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
		return r.probeExec(ctx, p.Exec)
	}
	return nil
}

func (r *Reaper) probeExec(ctx context.Context, argv []string) error {
	c, err := r.Start(Spec{Argv: argv, Output: -1, Cgroup: -1, Env: []string{defaultPath}})
	if err != nil {
		return err
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		_ = c.Signal(unix.SIGKILL)
		select { // its status is taken by the reaper in any case
		case <-c.Done():
		case <-time.After(defaultTimeout):
		}
		return ctx.Err()
	}
	if ws := c.Status(); !ws.Exited() || ws.ExitStatus() != 0 {
		return fmt.Errorf("%s: %s", argv[0], Describe(ws))
	}
	return nil
}

func millis(n int, def time.Duration) time.Duration {
	if n <= 0 {
		return def
	}
	return time.Duration(n) * time.Millisecond
}
