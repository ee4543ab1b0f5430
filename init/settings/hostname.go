package settings

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// DefaultHostname is used when nobody gives a name.
const DefaultHostname = "garboard"

// maxHostname is the kernel's limit in bytes (sethostname(2), __NEW_UTS_LEN).
const maxHostname = 64

// Name is a node's name and who gave it.
type Name struct {
	Text string
	From string
	// Given: by someone who means this one node, so that DHCP changes nothing.
	Given bool
}

// Hostname chooses the node's name at boot: the kernel command line's
// garboard.hostname, then /etc/hostname, then (until DHCP gives one) the node
// table, then DefaultHostname. A name that is not valid is passed over and named
// in the error; the choice stands all the same.
func Hostname(cmdline, etc, table string) (Name, error) {
	var errs []error
	for _, c := range []struct {
		from, text string
		given      bool
	}{
		{"garboard.hostname on the kernel command line", cmdline, true},
		{"/etc/hostname", firstLine(etc), true},
		{"the node table", table, false},
	} {
		if strings.TrimSpace(c.text) == "" {
			continue
		}
		name, err := NormalHostname(c.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.from, err))
			continue
		}
		return Name{name, c.from, c.given}, errors.Join(errs...)
	}
	return Name{DefaultHostname, "the default", false}, errors.Join(errs...)
}

// firstLine is the first line that says something, as in hostname(5).
func firstLine(s string) string {
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			return line
		}
	}
	return ""
}

// NormalHostname is the one spelling of a name: no space around it, lower case
// (DNS does not tell the cases apart, and the kubelet lowers it anyway), without
// the dot that ends a fully qualified name. A qualified name stays qualified.
func NormalHostname(name string) (string, error) {
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
	return name, CheckHostname(name)
}

// CheckHostname tells what keeps name from being a Kubernetes node name (an RFC
// 1123 subdomain) that the kernel takes too, and that is one node's.
func CheckHostname(name string) error {
	if len(name) > maxHostname {
		return fmt.Errorf("hostname %q has %d characters, at most %d are possible", name, len(name), maxHostname)
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "" || len(label) > 63:
			return fmt.Errorf("hostname %q: each part between dots has 1 to 63 characters", name)
		case label[0] == '-' || label[len(label)-1] == '-':
			return fmt.Errorf("hostname %q: no part may begin or end with '-'", name)
		}
		for _, r := range label {
			if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') {
				return fmt.Errorf("hostname %q: %q is not one of a-z, 0-9, '-', '.'", name, r)
			}
		}
	}
	if name == "localhost" || strings.HasPrefix(name, "localhost.") {
		return fmt.Errorf("hostname %q is every machine's", name)
	}
	return nil
}

// dhcpHostname reads DHCP's option 12. Some servers end it with zero bytes; a
// qualified name that is too long for the kernel is cut to its first part.
func dhcpHostname(text string) (string, error) {
	name, err := NormalHostname(strings.TrimRight(text, "\x00"))
	if err != nil && len(name) > maxHostname {
		if short, _, dotted := strings.Cut(name, "."); dotted && CheckHostname(short) == nil {
			return short, nil
		}
	}
	return name, err
}

// Naming is the node's name through the boot. A name from DHCP is taken until
// Settle, which is called before the kubelet starts; a later one would rename a
// running node and is said and left for the next boot. It is safe for
// concurrent use.
type Naming struct {
	Set    func(name string) error // gives the running node its name
	Printf func(format string, args ...any)

	mu      sync.Mutex
	name    Name
	settled bool
	refused string        // the last name from DHCP that was not taken
	offered chan struct{} // closed once DHCP has given a name
}

// Begin sets the name chosen at boot.
func (g *Naming) Begin(n Name) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.name, g.offered = n, make(chan struct{})
	g.Printf("hostname %s, from %s", n.Text, n.From)
	return g.Set(n.Text)
}

// Given is the name if somebody gave it to this one node, for DHCP servers that
// put it into DNS; a default would make many nodes claim one name.
func (g *Naming) Given() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.name.Given {
		return ""
	}
	return g.name.Text
}

// Offer is a name that DHCP gave on a link; the first that can be taken is.
func (g *Naming) Offer(link, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if text == "" || g.name.Given || g.offered == nil || text == g.refused {
		return
	}
	name, err := dhcpHostname(text)
	if err == nil && name == g.name.Text {
		g.answered()
		return
	}
	g.refused = text // each once, not with every renewal
	from := "DHCP on " + link
	switch {
	case err != nil:
		g.Printf("hostname: %s: %v", from, err)
	case g.settled:
		g.Printf("hostname: %s says %s: too late, the kubelet runs as %s; see garboard.hostname.wait", from, name, g.name.Text)
	case g.hasAnswer():
		g.Printf("hostname: %s says %s: %s from %s came first", from, name, g.name.Text, g.name.From)
	default:
		if err := g.Set(name); err != nil {
			g.Printf("hostname %s, from %s: %v", name, from, err)
			return
		}
		g.refused, g.name = "", Name{Text: name, From: from}
		g.Printf("hostname %s, from %s", name, from)
		g.answered()
	}
}

func (g *Naming) hasAnswer() bool {
	select {
	case <-g.offered:
		return true
	default:
		return false
	}
}

func (g *Naming) answered() {
	if !g.hasAnswer() {
		close(g.offered)
	}
}

// Wait waits for a name from DHCP if nobody gave one; false if ctx ended first.
func (g *Naming) Wait(ctx context.Context) bool {
	g.mu.Lock()
	given, offered := g.name.Given, g.offered
	g.mu.Unlock()
	if given || offered == nil {
		return true
	}
	select {
	case <-offered:
		return true
	case <-ctx.Done():
		return false
	}
}

// Settle ends the time in which a name is taken, and returns the name.
func (g *Naming) Settle() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settled = true
	return g.name.Text
}
