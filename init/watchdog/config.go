package watchdog

import (
	"fmt"
	"strings"
	"time"
)

// Config is what the recipe or the kernel command line asks for.
type Config struct {
	Off     bool
	Soft    bool // the kernel's timer where the machine has no watchdog
	Runtime bool // a runtime that does not answer for RuntimeLimit, for whatever reason, resets the machine
	Timeout time.Duration
}

// Limits of a timeout, and the one without a wish.
const (
	DefaultTimeout = 60 * time.Second
	minTimeout     = 10 * time.Second
	maxTimeout     = 10 * time.Minute
)

// Parse reads words separated by commas: off, soft, runtime, and a timeout such
// as 60s. Nothing means a hardware watchdog, if there is one.
func Parse(text string) (Config, error) {
	c := Config{Timeout: DefaultTimeout}
	for w := range strings.SplitSeq(text, ",") {
		switch w = strings.TrimSpace(w); w {
		case "":
		case "off":
			c.Off = true
		case "soft":
			c.Soft = true
		case "runtime":
			c.Runtime = true
		default:
			d, err := time.ParseDuration(w)
			if err != nil || d < minTimeout || d > maxTimeout || d%time.Second != 0 {
				return Config{Timeout: DefaultTimeout}, fmt.Errorf("watchdog %q: %q is none of off, soft, runtime, nor a timeout in whole seconds from %s to %s", text, w, minTimeout, maxTimeout)
			}
			c.Timeout = d
		}
	}
	return c, nil
}
