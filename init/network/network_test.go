package network

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

func ack(t *testing.T, m ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	p, err := dhcpv4.New(append([]dhcpv4.Modifier{
		dhcpv4.WithMessageType(dhcpv4.MessageTypeAck),
		dhcpv4.WithYourIP(net.IPv4(10, 0, 2, 15)),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)),
		dhcpv4.WithServerIP(net.IPv4(10, 0, 2, 2)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 0, 2, 2))),
		dhcpv4.WithLeaseTime(3600),
	}, m...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewLease(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		name  string
		mod   []dhcpv4.Modifier
		check func(*Lease) bool
	}{
		{"times by default", nil, func(l *Lease) bool {
			return l.T1 == 30*time.Minute && l.T2 == 3150*time.Second && l.Lifetime == time.Hour && l.Addr.String() == "10.0.2.15/24"
		}},
		{"router", []dhcpv4.Modifier{dhcpv4.WithRouter(net.IPv4(10, 0, 2, 2))}, func(l *Lease) bool {
			r := routes(3, l)
			return len(r) == 1 && r[0].Priority == 1003 && r[0].Flags == 0
		}},
		{"router elsewhere is on-link", []dhcpv4.Modifier{dhcpv4.WithRouter(net.IPv4(169, 254, 1, 1))}, func(l *Lease) bool {
			return routes(3, l)[0].Flags != 0
		}},
		{"classless routes replace the router", []dhcpv4.Modifier{dhcpv4.WithRouter(net.IPv4(10, 0, 2, 2)),
			dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(&dhcpv4.Route{
				Dest: &net.IPNet{IP: net.IPv4(10, 9, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}, Router: net.IPv4(10, 0, 2, 9)}))},
			func(l *Lease) bool {
				r := routes(3, l)
				return l.Router == nil && len(r) == 1 && r[0].Gw.Equal(net.IPv4(10, 0, 2, 9))
			}},
		{"senseless times", []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionRenewTimeValue, []byte{0, 1, 0, 0}))},
			func(l *Lease) bool { return l.T1 == 30*time.Minute }},
		{"for ever", []dhcpv4.Modifier{dhcpv4.WithLeaseTime(0xffffffff)}, func(l *Lease) bool { return l.Lifetime == aLongTime && l.T1 > 0 }},
		{"zero seconds", []dhcpv4.Modifier{dhcpv4.WithLeaseTime(0)}, func(l *Lease) bool { return l.Lifetime == minLifetime }},
		{"name and time servers", []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptHostName("edge-7")),
			dhcpv4.WithOption(dhcpv4.OptNTPServers(net.IPv4(10, 0, 2, 4), net.IPv4(10, 0, 2, 5)))}, func(l *Lease) bool {
			return l.Hostname == "edge-7" && len(l.NTP) == 2 && l.NTP[1].Equal(net.IPv4(10, 0, 2, 5))
		}},
		{"no mask", []dhcpv4.Modifier{dhcpv4.WithNetmask(net.IPMask{})}, func(l *Lease) bool { return l.Addr.String() == "10.0.2.15/8" }},
	} {
		l, err := newLease(ack(t, tt.mod...), now)
		if err != nil || !tt.check(l) {
			t.Errorf("%s: %+v, %v", tt.name, l, err)
		}
	}
	for _, ip := range []net.IP{net.IPv4zero, net.IPv4(127, 0, 0, 1), net.IPv4(224, 0, 0, 1), net.IPv4bcast} {
		if _, err := newLease(ack(t, dhcpv4.WithYourIP(ip)), now); !errors.Is(err, errUnusable) {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

// server plays the other side; time passes only when the keeper sleeps.
type server struct {
	t      *testing.T
	now    time.Time
	log    []string
	answer func(what string, n int) error
	count  map[string]int
	cancel context.CancelFunc
}

func (s *server) do(what string, l *Lease) (*Lease, error) {
	s.count[what]++
	s.log = append(s.log, what)
	if len(s.log) > 200 {
		s.cancel()
	}
	if err := s.answer(what, s.count[what]); err != nil {
		return nil, err
	}
	return newLease(ack(s.t), s.now)
}

func (s *server) Discover(context.Context) (*Lease, error)           { return s.do("discover", nil) }
func (s *server) Renew(_ context.Context, l *Lease) (*Lease, error)  { return s.do("renew", l) }
func (s *server) Rebind(_ context.Context, l *Lease) (*Lease, error) { return s.do("rebind", l) }

func (s *server) sleep(ctx context.Context, d time.Duration) error {
	s.now = s.now.Add(max(d, 0))
	return ctx.Err()
}

func TestKeeper(t *testing.T) {
	silent := errors.New("no answer")
	for _, tt := range []struct {
		name   string
		answer func(s *server) func(string, int) error
		want   string
	}{
		{"renewed twice", func(s *server) func(string, int) error {
			return func(what string, n int) error {
				if what == "renew" && n == 3 {
					s.cancel()
					return silent
				}
				return nil
			}
		}, "discover +addr renew +addr renew +addr renew"},
		{"refused", func(s *server) func(string, int) error {
			return func(what string, n int) error {
				if what == "renew" {
					return errRefused
				}
				if what == "discover" && n == 2 {
					s.cancel()
					return silent
				}
				return nil
			}
		}, "discover +addr renew -addr discover"},
		{"rebound", func(s *server) func(string, int) error {
			return func(what string, n int) error {
				switch {
				case what == "renew":
					return silent
				case what == "rebind" && n == 1:
					return nil
				case what == "rebind":
					s.cancel()
					return silent
				}
				return nil
			}
		}, "discover +addr renew* rebind +addr renew* rebind"},
		{"expired", func(s *server) func(string, int) error {
			return func(what string, n int) error {
				if what != "discover" {
					return silent
				}
				if n == 2 {
					s.cancel()
					return silent
				}
				return nil
			}
		}, "discover +addr renew* rebind* -addr discover"},
		{"late server", func(s *server) func(string, int) error {
			return func(what string, n int) error {
				if what == "discover" && n < 4 {
					return silent
				}
				if what == "renew" {
					s.cancel()
				}
				return nil
			}
		}, "discover* +addr renew"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &server{t: t, now: time.Unix(1000, 0), count: map[string]int{}, cancel: cancel}
			s.answer = tt.answer(s)
			k := &keeper{link: "eth0", ex: s, printf: t.Logf, now: func() time.Time { return s.now }, sleep: s.sleep,
				configure: func(old, new *Lease) error {
					if new != nil {
						s.log = append(s.log, "+addr")
					} else {
						s.log = append(s.log, "-addr")
					}
					return nil
				}}
			k.run(ctx)
			got := squeeze(s.log)
			if !slices.Equal(got, strings.Fields(tt.want)) {
				t.Errorf("got %q\nof %q", got, s.log)
			}
		})
	}
}

// squeeze writes several of the same as one with a star.
func squeeze(in []string) (out []string) {
	for i, w := range in {
		if i > 0 && in[i-1] == w {
			out[len(out)-1] = w + "*"
			continue
		}
		out = append(out, w)
	}
	return out
}

func TestWired(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"eth0/device", "wlan0/device", "wlan0/phy80211", "veth0"} {
		if err := os.MkdirAll(filepath.Join(root, "sys/class/net", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		kind, encap, name string
		want              bool
	}{
		{"device", "ether", "eth0", true},
		{"device", "ether", "wlan0", false},
		{"veth", "ether", "veth0", false},
		{"device", "ether", "veth0", false}, // no hardware behind it
		{"device", "loopback", "lo", false},
		{"device", "ether", "../eth0", false},
	} {
		if got := wired(root, tt.kind, tt.encap, tt.name); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestResolvConf(t *testing.T) {
	a, err := newLease(ack(t, dhcpv4.WithDNS(net.IPv4(10, 0, 2, 3), net.IPv4(1, 1, 1, 1)),
		dhcpv4.WithOption(dhcpv4.OptDomainSearch(&rfc1035label.Labels{Labels: []string{"Example.com.", "evil\nnameserver 6.6.6.6"}}))), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b, err := newLease(ack(t, dhcpv4.WithDNS(net.IPv4(10, 0, 2, 3), net.IPv4(8, 8, 8, 8), net.IPv4(9, 9, 9, 9))), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := "search example.com\nnameserver 10.0.2.3\nnameserver 1.1.1.1\nnameserver 8.8.8.8\n"
	if got := resolvConf([]*Lease{a, b}); got != want {
		t.Errorf("got %q", got)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := &Manager{Root: root, leases: map[string]*Lease{}}
	if err := errors.Join(m.resolv("eth0", a), m.resolv("eth1", b), m.resolv("eth0", nil)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "etc/resolv.conf"))
	if err != nil || strings.Contains(string(text), "1.1.1.1") || !strings.Contains(string(text), "9.9.9.9") {
		t.Errorf("%s %v", text, err)
	}
}

func FuzzNewLease(f *testing.F) {
	f.Add([]byte{})
	p, err := dhcpv4.New(dhcpv4.WithYourIP(net.IPv4(10, 0, 2, 15)), dhcpv4.WithLeaseTime(60))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.ToBytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := dhcpv4.FromBytes(b)
		if err != nil {
			return
		}
		l, err := newLease(p, time.Unix(1, 0))
		if err != nil {
			return
		}
		if l.T1 <= 0 || l.T2 <= l.T1 || l.Lifetime <= l.T2 {
			t.Fatalf("times %s %s %s", l.T1, l.T2, l.Lifetime)
		}
		routes(2, l)
		for line := range strings.SplitSeq(resolvConf([]*Lease{l}), "\n") {
			if line != "" && !strings.HasPrefix(line, "search ") && !strings.HasPrefix(line, "nameserver ") {
				t.Fatalf("line %q", line)
			}
		}
	})
}
