package clock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/beevik/ntp"
)

const (
	askTimeout     = 3 * time.Second
	resolveTimeout = 5 * time.Second
	// What a server's kiss of death is answered with (RFC 5905 section 7.4).
	avoidDenied = 24 * time.Hour // DENY, RSTR: go away
	avoidBusy   = time.Hour      // RATE and others
	// agree is how far two servers that both are right may lie apart, beyond
	// what they say of themselves.
	agree = 200 * time.Millisecond
)

// answer is what a round has found out.
type answer struct {
	Server string
	Offset time.Duration // what is to be added to the clock
	MaxErr time.Duration // the true offset is no further away, if the server is right
}

// round asks a few servers at the same time.
func (k *Keeper) round(ctx context.Context) (answer, error) {
	addresses, errs := k.addresses(ctx)
	var mu sync.Mutex
	var good []answer
	var wg sync.WaitGroup
	for _, a := range addresses {
		wg.Go(func() {
			defer k.Guard("clock server " + a)
			r, err := k.Ask(ctx, a)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = k.check(a, r)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", a, err))
				return
			}
			good = append(good, answer{a, r.ClockOffset, r.RootDistance})
		})
	}
	wg.Wait()
	if len(good) == 0 {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return answer{}, errors.Join(errs...)
	}
	return choose(good), nil
}

// addresses are those to ask now, each name resolved to all it stands for.
func (k *Keeper) addresses(ctx context.Context) (out []string, errs []error) {
	list := k.list()
	if len(list) == 0 {
		return nil, []error{errNoServer}
	}
	now := k.System.Now()
	left := 0
	for _, server := range list {
		host, port := splitServer(server)
		ips := []string{host}
		if net.ParseIP(host) == nil {
			rctx, cancel := context.WithTimeout(ctx, resolveTimeout)
			var err error
			ips, err = k.Resolve(rctx, host)
			cancel()
			if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		for _, ip := range ips {
			a := net.JoinHostPort(ip, port)
			switch {
			case now.Before(k.avoid[a]):
				left++
			case len(out) < askAtOnce && !slices.Contains(out, a):
				out = append(out, a)
			}
		}
		if len(out) == askAtOnce {
			break
		}
	}
	if len(out) == 0 && left > 0 {
		errs = append(errs, fmt.Errorf("%d servers asked to be left alone", left))
	}
	return out, errs
}

// splitServer is the host and the port of a server; port 123 if it names none.
func splitServer(s string) (host, port string) {
	if h, p, err := net.SplitHostPort(s); err == nil {
		return h, p
	}
	return strings.Trim(s, "[]"), "123"
}

// check refuses answers that cannot be right. The mutex of the round is held.
func (k *Keeper) check(address string, r *ntp.Response) error {
	if r.IsKissOfDeath() {
		d := avoidBusy
		if r.KissCode == "DENY" || r.KissCode == "RSTR" {
			d = avoidDenied
		}
		k.avoid[address] = k.System.Now().Add(d)
		return fmt.Errorf("kiss of death %q, left alone for %s", r.KissCode, d)
	}
	if err := r.Validate(); err != nil {
		return err
	}
	// What counts is what the clock would show.
	to := k.System.Now().Add(r.ClockOffset)
	switch {
	case to.Before(k.Built):
		return fmt.Errorf("says %s, which is before this image was built", to.UTC().Format(time.RFC3339))
	case !k.Built.IsZero() && to.Sub(k.Built) > Ahead:
		return fmt.Errorf("says %s, decades after this image was built", to.UTC().Format(time.RFC3339))
	}
	return nil
}

// choose takes the answer that most others agree with; of those, the one
// with the least possible error.
func choose(good []answer) answer {
	friends := func(a answer) (n int) {
		for _, b := range good {
			if (a.Offset - b.Offset).Abs() <= a.MaxErr+b.MaxErr+agree {
				n++
			}
		}
		return n
	}
	best := good[0]
	for _, a := range good[1:] {
		if f, b := friends(a), friends(best); f > b ||
			f == b && (a.MaxErr < best.MaxErr || a.MaxErr == best.MaxErr && a.Server < best.Server) {
			best = a
		}
	}
	return best
}

func ask(ctx context.Context, address string) (*ntp.Response, error) {
	stop := func() bool { return true }
	defer func() { stop() }()
	return ntp.QueryWithOptions(address, ntp.QueryOptions{Timeout: askTimeout,
		Dialer: func(_, remote string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "udp", remote)
			if err == nil { // the end of the node ends the wait
				stop = context.AfterFunc(ctx, func() { _ = c.Close() })
			}
			return c, err
		}})
}

func resolve(ctx context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ctx, host)
}

func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func sortedKeys(m map[string][]string) []string { return slices.Sorted(maps.Keys(m)) }

// ParseServers reads garboard.ntp: servers separated by commas, or "off".
func ParseServers(text string) (servers []string, off bool) {
	if text == "off" || text == "none" {
		return nil, true
	}
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			servers = append(servers, s)
		}
	}
	return servers, false
}
