package boot

import (
	"context"
	"errors"
	"strings"
	"sync"
)

// gate lets phases begin until a shutdown shuts it: what a phase made after the
// shutdown had looked, nobody would end. It is shutdown.Boot.
type gate struct {
	ctx  context.Context // ends when the gate is shut: for phases that only wait
	shut context.CancelFunc

	mu      sync.Mutex
	running []string
	changed chan struct{} // closed and replaced when a phase ends
}

// errShut is why a phase did not begin, or did only half of what it does.
var errShut = errors.New("the node shuts down")

func newGate() *gate {
	g := &gate{changed: make(chan struct{})}
	g.ctx, g.shut = context.WithCancel(context.Background())
	return g
}

// enter says whether a phase may begin.
func (g *gate) enter(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return false
	}
	g.running = append(g.running, name)
	return true
}

func (g *gate) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, n := range g.running {
		if n == name {
			g.running = append(g.running[:i], g.running[i+1:]...)
			break
		}
	}
	close(g.changed)
	g.changed = make(chan struct{})
}

// Stop shuts the gate.
func (g *gate) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut()
}

// Running names the phases that run.
func (g *gate) Running() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.running) == 0 {
		return ""
	}
	return "phase " + strings.Join(g.running, ", phase ")
}

// Wait waits until no phase runs; false if ctx ended first.
func (g *gate) Wait(ctx context.Context) bool {
	for {
		g.mu.Lock()
		n, ch := len(g.running), g.changed
		g.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return false
		}
	}
}
