package boot

import (
	"context"

	"garboard.local/init/shutdown"
	"garboard.local/init/table"
	"garboard.local/socket"
)

// handler is socket.Handler: what the commands do.
type handler struct{ n *node }

func who(r socket.Request) string { return r.Command.String() + " from " + r.String() }

func (h handler) Shutdown(r socket.Request) {
	h.n.end.Ask(shutdown.Request{Mode: shutdown.PowerOff, Who: who(r)})
}

func (h handler) Reboot(r socket.Request) {
	h.n.end.Ask(shutdown.Request{Mode: shutdown.Reboot, Who: who(r)})
}

func (h handler) PowerOffNow(r socket.Request) {
	h.n.end.Ask(shutdown.Request{Mode: shutdown.PowerOff, Who: who(r) + " (without grace)", Now: true})
}

func (h handler) RestartKubelet(r socket.Request) { h.restart(table.RoleKubelet, r) }
func (h handler) RestartRuntime(r socket.Request) { h.restart(table.RoleRuntime, r) }

func (h handler) restart(role string, r socket.Request) {
	if err := h.n.services.Load().Restart(role, r.String()); err != nil {
		h.n.printf("%v", err)
	}
}

// lock is shutdown.Lock over the system socket, or nil before it is served.
func (n *node) lock() shutdown.Lock {
	if s := n.server.Load(); s != nil {
		return &lock{server: s}
	}
	return nil
}

type lock struct {
	server *socket.Server
	handle *socket.ShutdownHandle
}

func (l *lock) Begin() { l.handle = l.server.BeginShutdown() }

func (l *lock) WaitHolder(ctx context.Context) bool {
	_, ok := l.server.WaitHolder(ctx)
	return ok
}

func (l *lock) Wait(ctx context.Context) shutdown.Outcome {
	switch l.handle.Wait(ctx) {
	case socket.Continued:
		return shutdown.Continued
	case socket.TimedOut:
		return shutdown.TimedOut
	case socket.Closed:
		return shutdown.Closed
	}
	return shutdown.NoHolder
}
