// Package socket is the system socket: the one-byte protocol through which
// pods and tools ask PID 1 for a shutdown or a restart, and through which PID 1
// tells the kubelet that the node goes down. Server is PID 1's side; Client is
// the side of the kubelet, of tools and of bootstrap pods.
//
// Every message is one byte, without length, reply or version. It is compatible
// with the published kiOS protocol; numbers from 0x10 up are Garboard's.
//
//	direction         byte  name             taken on       meaning
//	client -> PID 1   0x01  shutdown         root           power off, with grace
//	client -> PID 1   0x02  continue         root           during a shutdown: the kubelet is done; else: power off now, without grace
//	client -> PID 1   0x03  restart-kubelet  root, restart  end the kubelet and start it again
//	client -> PID 1   0x04  restart-runtime  root, restart  end the container runtime and start it again
//	client -> PID 1   0x10  reboot           root           reboot, with grace
//	PID 1 -> client   0x01  shutdown         root, restart  the node goes down; sent at once to who connects later
//
// There are two sockets. RootPath (mode 0600) takes every command. RestartPath
// (mode 0666: being given the mount is the grant) takes the two restarts only.
//
// The kubelet's open connection to the root socket is the shutdown lock: it
// delays a shutdown until it sends 0x02 after having been sent the event, closes,
// or dies. Nobody else's connection delays anything. PID 1 sets the ceiling, from
// the grace period that the kubelet leaves in GraceFile.
//
// The package depends on the standard library alone, because it is also copied
// into the kubelet's source at build.
package socket

import "fmt"

const (
	// RootPath is the socket that takes every command; mode 0600.
	RootPath = "/run/system.sock"
	// RestartPath is the socket for bootstrap pods; mode 0666. It takes
	// RestartKubelet and RestartRuntime only.
	RestartPath = "/run/garboard/restart.sock"
	// GraceFile holds the kubelet's whole shutdown period: decimal
	// milliseconds and a newline. See WriteGrace and ReadGrace.
	GraceFile = "/run/garboard/kubelet-grace"
)

// Command is a byte that a client sends.
type Command byte

const (
	// Shutdown asks for a power-off, with grace for the pods.
	Shutdown Command = 0x01
	// Continue, from the kubelet during a shutdown, releases its lock.
	// Outside a shutdown it means: power off now, without grace.
	Continue Command = 0x02
	// RestartKubelet ends the kubelet and starts it again; pods keep running.
	RestartKubelet Command = 0x03
	// RestartRuntime ends the container runtime and starts it again.
	RestartRuntime Command = 0x04
	// Reboot asks for a reboot, with grace for the pods.
	Reboot Command = 0x10
)

var commandNames = map[Command]string{
	Shutdown:       "shutdown",
	Continue:       "continue",
	RestartKubelet: "restart-kubelet",
	RestartRuntime: "restart-runtime",
	Reboot:         "reboot",
}

// String is the command's name in the protocol table, or "unknown (0x7f)".
func (c Command) String() string {
	if name, ok := commandNames[c]; ok {
		return name
	}
	return fmt.Sprintf("unknown (0x%02x)", byte(c))
}

// Known reports whether the byte is a command of the protocol.
func (c Command) Known() bool {
	_, ok := commandNames[c]
	return ok
}

// Event is a byte that PID 1 sends.
type Event byte

// EventShutdown says that the node goes down. It is sent once on a connection,
// and there is no event that takes it back.
const EventShutdown Event = 0x01

// String is the event's name in the protocol table, or "unknown (0x7f)".
func (e Event) String() string {
	if e == EventShutdown {
		return "shutdown"
	}
	return fmt.Sprintf("unknown (0x%02x)", byte(e))
}

// Socket says which of the two sockets a connection came in on.
type Socket int

const (
	// Root is the socket at RootPath.
	Root Socket = iota
	// Restart is the socket at RestartPath.
	Restart
)

// String is the socket's name in the protocol table: "root" or "restart".
func (s Socket) String() string {
	if s == Restart {
		return "restart"
	}
	return "root"
}

// Takes reports whether the socket takes the command.
func (s Socket) Takes(c Command) bool {
	if s == Restart {
		return c == RestartKubelet || c == RestartRuntime
	}
	return c.Known()
}
