package clock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beevik/ntp"
	"golang.org/x/sys/unix"
)

var built = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// reply is how a server answers; the zero value is a right one.
type reply struct {
	mu      sync.Mutex
	off     time.Duration // of the server's clock
	stratum byte          // 2; 0 = kiss of death
	kiss    string
	leap    byte
	spoofed bool // answers another request
	silent  bool
	garbage bool
}

// serve is a time server on loopback; it returns its address.
func serve(t *testing.T, r *reply) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if n < 48 || r.silent {
				continue
			}
			out := answerTo(b[:n], r)
			c.WriteTo(out, from)
		}
	}()
	return c.LocalAddr().String()
}

func answerTo(request []byte, r *reply) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.garbage {
		return []byte("no time like the present")
	}
	out := make([]byte, 48)
	out[0] = r.leap<<6 | 4<<3 | 4
	out[1], out[2], out[3] = 2, 6, 0xec
	if r.stratum != 0 {
		out[1] = r.stratum
	}
	if r.kiss != "" {
		out[1] = 0
		copy(out[12:16], r.kiss)
	}
	now := stamp(time.Now().Add(r.off))
	binary.BigEndian.PutUint64(out[16:], stamp(time.Now().Add(r.off-time.Minute))) // reference
	copy(out[24:32], request[40:48])                                               // origin
	if r.spoofed {
		out[24] ^= 1
	}
	binary.BigEndian.PutUint64(out[32:], now)
	binary.BigEndian.PutUint64(out[40:], now)
	return out
}

func stamp(t time.Time) uint64 {
	d := t.Sub(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC))
	if d < 0 { // Sub is at its limit: more than 292 years
		d = 0
	}
	return uint64(d/time.Second)<<32 | uint64(d%time.Second)<<32/uint64(time.Second)
}

// fake is a clock that is wrong by off.
type fake struct {
	off    time.Duration
	log    []string
	failed error
}

func (f *fake) Now() time.Time { return time.Now().Add(f.off) }

func (f *fake) Step(d time.Duration) error {
	f.log = append(f.log, "step "+d.Round(time.Second).String())
	f.off += d
	return f.failed
}

func (f *fake) Slew(d, maxErr, poll time.Duration) error {
	f.log = append(f.log, fmt.Sprintf("slew %s/%s", d.Round(100*time.Millisecond), poll))
	return nil
}

// keeper asks real servers with a fake clock; a round costs no time.
func keeper(t *testing.T, rounds int, servers ...string) (*Keeper, *fake, *[]string, *[]time.Duration) {
	t.Helper()
	clk, said, slept := &fake{}, new([]string), new([]time.Duration)
	k := &Keeper{System: clk, Built: built, Servers: servers,
		Printf: func(format string, args ...any) {
			line := fmt.Sprintf(format, args...)
			t.Log(line)
			*said = append(*said, line)
		},
		Sleep: func(_ context.Context, d time.Duration, _ <-chan struct{}) error {
			*slept = append(*slept, d)
			if len(*slept) >= rounds {
				return errors.New("enough")
			}
			return nil
		},
		// beevik/ntp reads the machine's clock; what the fake one is off by comes on top.
		Ask: func(ctx context.Context, a string) (*ntp.Response, error) {
			r, err := ntp.QueryWithOptions(a, ntp.QueryOptions{Timeout: 200 * time.Millisecond})
			if err == nil {
				r.ClockOffset -= clk.off
			}
			return r, err
		}}
	return k, clk, said, slept
}

func TestRun(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, tt := range []struct {
		name    string
		off     time.Duration // of our clock
		replies []*reply
		rounds  int
		want    []string
		said    string
	}{
		{"right already", 0, []*reply{{}}, 2, []string{"slew 0s/1m4s", "slew 0s/2m8s"}, "right, off by"},
		{"a bit off", 100 * time.Millisecond, []*reply{{}}, 1, []string{"slew -100ms/1m4s"}, "right, off by"},
		{"years behind", -2 * year, []*reply{{}}, 2, []string{"step 17520h0m0s", "slew 0s/1m4s", "slew 0s/2m8s"}, "set by 17520h0m0s"},
		{"ahead", 2 * time.Hour, []*reply{{}}, 1, []string{"step -2h0m0s", "slew 0s/1m4s"}, "set by -2h0m0s"},
		{"one of two is silent", time.Hour, []*reply{{silent: true}, {}}, 1, []string{"step -1h0m0s", "slew 0s/1m4s"}, "set by -1h0m0s"},
		{"the liar among three", 0, []*reply{{off: time.Hour}, {}, {}}, 1, []string{"slew 0s/1m4s"}, "right"},
		{"before the build", 0, []*reply{{off: -40 * year}}, 1, nil, "before this image was built"},
		{"decades ahead", 0, []*reply{{off: 35 * year}}, 1, nil, "decades after"},
		{"kiss of death", 0, []*reply{{kiss: "RATE"}}, 3, nil, `kiss of death "RATE", left alone for 1h0m0s`},
		{"denied", 0, []*reply{{kiss: "DENY"}}, 1, nil, `left alone for 24h0m0s`},
		{"not synchronised", 0, []*reply{{leap: 3}}, 1, nil, "leap second"},
		{"stratum 16", 0, []*reply{{stratum: 16}}, 1, nil, "stratum"},
		{"somebody else's answer", 0, []*reply{{spoofed: true}}, 1, nil, "goes on trying"},
		{"garbage", 0, []*reply{{garbage: true}}, 1, nil, "goes on trying"},
		{"silence", 0, []*reply{{silent: true}}, 4, nil, "timeout"},
		{"nobody to ask", 0, nil, 3, nil, "no server is known"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var servers []string
			for _, r := range tt.replies {
				servers = append(servers, serve(t, r))
			}
			k, clk, said, _ := keeper(t, tt.rounds, servers...)
			clk.off = tt.off
			k.Run(t.Context())
			if !slices.Equal(clk.log, tt.want) {
				t.Errorf("clock: %q, want %q", clk.log, tt.want)
			}
			if len(*said) != 1 || !strings.Contains((*said)[0], tt.said) {
				t.Errorf("said %q, want one line with %q", *said, tt.said)
			}
		})
	}
}

func TestBackOff(t *testing.T) {
	k, _, said, slept := keeper(t, 12)
	k.Run(t.Context())
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(*slept, want) || len(*said) != 1 {
		t.Errorf("slept %s; said %q", *slept, *said)
	}
}

// A clock that was right is set only by two rounds that agree.
func TestDoubt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		second time.Duration
		want   []string
	}{
		{"confirmed", 10 * time.Second, []string{"slew 0s/1m4s", "step 10s", "slew 0s/1m4s"}},
		{"a slip of the server", 0, []string{"slew 0s/1m4s", "slew 0s/1m4s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &reply{}
			k, clk, _, slept := keeper(t, 3, serve(t, r))
			count := k.Sleep
			k.Sleep = func(ctx context.Context, d time.Duration, w <-chan struct{}) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.off = []time.Duration{10 * time.Second, tt.second, 0}[len(*slept)]
				return count(ctx, d, w)
			}
			k.Run(t.Context())
			if !slices.Equal(clk.log, tt.want) || (*slept)[1] != doubtWait {
				t.Errorf("clock: %q, want %q; slept %s", clk.log, tt.want, *slept)
			}
		})
	}
}

// A server that asks to be left alone is.
func TestAvoid(t *testing.T) {
	k, clk, _, _ := keeper(t, 5, serve(t, &reply{kiss: "RATE"}), serve(t, &reply{}))
	asked := map[string]int{}
	inner := k.Ask
	k.Ask = func(ctx context.Context, a string) (*ntp.Response, error) {
		asked[a]++ // two servers are asked at once: only in the first round
		return inner(ctx, a)
	}
	sequential(k)
	k.Run(t.Context())
	if asked[k.Servers[0]] != 1 || asked[k.Servers[1]] != 5 || len(clk.log) != 5 {
		t.Errorf("asked %v, clock %q", asked, clk.log)
	}
}

// sequential makes the questions of a round follow one another.
func sequential(k *Keeper) {
	inner, turn := k.Ask, make(chan struct{}, 1)
	k.Ask = func(ctx context.Context, a string) (*ntp.Response, error) {
		turn <- struct{}{}
		defer func() { <-turn }()
		return inner(ctx, a)
	}
}

func TestWhoIsAsked(t *testing.T) {
	names := func(_ context.Context, host string) ([]string, error) {
		if host == "pool" {
			return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil
		}
		return nil, errors.New(host + ": no such host")
	}
	for _, tt := range []struct {
		name   string
		only   string
		leased [][]string
		table  []string
		want   string
		errs   int
	}{
		{"the image's", "", nil, []string{"pool"}, "10.0.0.1:123 10.0.0.2:123 10.0.0.3:123", 0},
		{"DHCP's come first", "", [][]string{{"10.1.0.1"}, {"10.1.0.2"}}, []string{"pool"}, "10.1.0.1:123 10.1.0.2:123 10.0.0.1:123 10.0.0.2:123", 0},
		{"the command line's alone", "10.2.0.1:1123,[fe80::1]", [][]string{{"10.1.0.1"}}, []string{"pool"}, "10.2.0.1:1123 [fe80::1]:123", 0},
		{"each once", "", [][]string{{"10.0.0.1"}}, []string{"pool", "10.0.0.1"}, "10.0.0.1:123 10.0.0.2:123 10.0.0.3:123", 0},
		{"a name that is none", "", nil, []string{"gone", "pool"}, "10.0.0.1:123 10.0.0.2:123 10.0.0.3:123", 1},
		{"nobody", "", nil, nil, "", 1},
	} {
		k := &Keeper{System: &fake{}, Servers: tt.table, Resolve: names}
		k.Only, _ = ParseServers(tt.only)
		for i, l := range tt.leased {
			k.Leased(fmt.Sprintf("eth%d", i), l)
		}
		got, errs := k.addresses(t.Context())
		if strings.Join(got, " ") != tt.want || len(errs) != tt.errs {
			t.Errorf("%s: %q, %v", tt.name, got, errs)
		}
	}
}

// A lease ends the wait, an unchanged one does not.
func TestLeaseWakes(t *testing.T) {
	k, _, said, _ := keeper(t, 0)
	k.Sleep = sleep
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	k.Leased("eth0", nil)
	k.Leased("eth0", []string{serve(t, &reply{})})
	began := time.Now()
	for len(k.wake) > 0 && time.Since(began) < 5*time.Second {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	cancel()
	<-done
	if len(*said) == 0 || !strings.Contains((*said)[len(*said)-1], "clock: right") {
		t.Errorf("said %q", *said)
	}
	k.Leased("eth0", k.leased["eth0"])
	if len(k.wake) != 0 {
		t.Error("a renewal wakes")
	}
}

func TestOff(t *testing.T) {
	servers, off := ParseServers("off")
	k, clk, said, _ := keeper(t, 1, "127.0.0.1:1")
	k.Only, k.Off = servers, off
	k.Run(t.Context())
	if !off || len(clk.log) != 0 || len(*said) != 1 {
		t.Errorf("%t %q %q", off, clk.log, *said)
	}
}

func TestSlew(t *testing.T) {
	x := slew(-20*time.Millisecond, 3*time.Millisecond, 1024*time.Second)
	if x.Offset != -20_000_000 || x.Maxerror != 3000 || x.Esterror != 20000 || x.Constant != 6 ||
		x.Modes != 0x203d || x.Status != 1 {
		t.Errorf("%+v", x)
	}
	if x := slew(time.Hour, 0, 0); x.Offset != int64(DoubtAbove) || x.Constant != 0 {
		t.Errorf("%+v", x)
	}
	// Read only: what the kernel takes is the shape of the structure.
	if _, err := unix.Adjtimex(&unix.Timex{}); err != nil {
		t.Error(err)
	}
}

func FuzzParseServers(f *testing.F) {
	f.Add("a,b:123,[::1]:5, off")
	f.Fuzz(func(t *testing.T, s string) {
		list, off := ParseServers(s)
		if off && len(list) > 0 {
			t.Error("off, but with servers")
		}
		for _, l := range list {
			if l == "" || strings.Contains(l, ",") {
				t.Errorf("server %q", l)
			}
			splitServer(l)
		}
	})
}
