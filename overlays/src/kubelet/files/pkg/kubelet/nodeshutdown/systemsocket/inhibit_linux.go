//go:build linux

package systemsocket

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown/systemd"
	"k8s.io/kubernetes/third_party/garboard/socket"
)

// callTimeout bounds every single exchange with PID 1, which answers at once or not at all.
const callTimeout = 5 * time.Second

// Inhibitor does over the system socket what systemd.DBusCon does over D-Bus.
//
// The open connection is the lock, and its id is the lock's. There is one
// Inhibitor in the life of a kubelet, so that an id is never used twice: the
// manager releases its previous lock, by then a stale one, each time it has
// taken a new one.
//
// No method fails because PID 1 cannot be reached. The manager then gets a lock
// that is not held and a channel of events that is closed, which it treats as it
// treats a connection that was lost: it starts again after its usual pause. The
// manager gives up for good if its first start fails, and the socket may be late.
type Inhibitor struct {
	socketPath string
	gracePath  string

	mu       sync.Mutex
	grace    time.Duration // what this round asked for
	unsaid   bool          // PID 1 has not been told yet
	graceErr error         // why it could not be told
	lastID   systemd.InhibitLock
	current  *lock
}

// lock is one connection.
type lock struct {
	id       systemd.InhibitLock
	client   *socket.Client // nil if dialling failed
	dialErr  error
	told     bool // the shutdown event came on this connection
	released bool
}

// New returns an Inhibitor that connects to the system socket at socketPath and
// leaves the requested shutdown period in the file at gracePath.
func New(socketPath, gracePath string) *Inhibitor {
	return &Inhibitor{socketPath: socketPath, gracePath: gracePath}
}

// CurrentInhibitDelay returns the period this kubelet has asked PID 1 for. It is
// 0 until then, whatever an earlier kubelet asked for, so that the manager tells
// its own period even if that is a shorter one.
func (i *Inhibitor) CurrentInhibitDelay() (time.Duration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.grace, nil
}

// OverrideInhibitDelay tells PID 1 how long the whole shutdown may take, before
// there is a lock. If that cannot be written, the lock is worth having all the
// same: PID 1 then assumes a period of its own. MonitorShutdown logs the error.
func (i *Inhibitor) OverrideInhibitDelay(inhibitDelayMax time.Duration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.grace, i.unsaid = inhibitDelayMax, true
	// Without a socket there is nobody to tell, and this may be no Garboard
	// node at all; InhibitShutdown does it if a socket comes just then.
	if _, err := os.Stat(i.socketPath); err == nil {
		i.writeGrace()
	}
	return nil
}

func (i *Inhibitor) writeGrace() {
	i.graceErr = socket.WriteGrace(i.gracePath, i.grace)
	i.unsaid = false
}

// ReloadLogindConf does nothing: PID 1 reads the file when a shutdown begins.
func (i *Inhibitor) ReloadLogindConf() error {
	return nil
}

// InhibitShutdown opens a new connection, which is the lock, in place of the last one.
func (i *Inhibitor) InhibitShutdown() (systemd.InhibitLock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	client, err := socket.Dial(ctx, i.socketPath)

	i.mu.Lock()
	defer i.mu.Unlock()
	if i.unsaid && err == nil {
		i.writeGrace()
	}
	i.grace, i.unsaid = 0, false // the next round writes the file anew
	if i.current != nil {
		i.current.close()
	}
	if i.lastID++; i.lastID == 0 {
		i.lastID++ // to the manager 0 means no lock
	}
	i.current = &lock{id: i.lastID, client: client, dialErr: err}
	return i.current.id, nil
}

// ReleaseInhibitLock lets the shutdown continue, if the lock's own connection has
// been told of one. The byte that says so powers the machine off at any other
// time; without a shutdown the connection is closed instead. A lock that is
// stale or already released is left alone.
func (i *Inhibitor) ReleaseInhibitLock(id systemd.InhibitLock) error {
	i.mu.Lock()
	l := i.current
	if l == nil || l.id != id || l.client == nil || l.released {
		i.mu.Unlock()
		return nil
	}
	l.released = true
	told := l.told
	i.mu.Unlock()

	if !told {
		return l.client.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := l.client.Continue(ctx); err != nil {
		_ = l.client.Close() // this, too, ends the wait for us
		return fmt.Errorf("unable to tell PID 1 that the shutdown may continue: %w", err)
	}
	return nil
}

// MonitorShutdown returns a channel that says true when the node goes down, once
// for each connection, and is closed when the connection ends. PID 1 repeats the
// event on a new connection while a shutdown runs.
func (i *Inhibitor) MonitorShutdown(logger klog.Logger) (<-chan bool, error) {
	i.mu.Lock()
	l, graceErr := i.current, i.graceErr
	i.mu.Unlock()

	if graceErr != nil {
		logger.Error(graceErr, "Unable to tell PID 1 the requested shutdown period, it will assume its own")
	}
	shutdownChan := make(chan bool, 1) // has room for all that is ever sent on it
	if l == nil || l.client == nil {
		var err error
		if l != nil {
			err = l.dialErr
		}
		logger.Error(err, "Unable to take the shutdown lock, will try again")
		close(shutdownChan)
		return shutdownChan, nil
	}
	logger.V(1).Info("Shutdown lock taken", "lock", l.id, "socket", i.socketPath)

	go func() {
		defer close(shutdownChan)
		defer l.close()
		for event := range l.client.Events() {
			if event != socket.EventShutdown {
				logger.Info("Ignoring an unknown event from the system socket", "event", event)
				continue
			}
			i.mu.Lock()
			first := !l.told
			l.told = true
			i.mu.Unlock()
			if first {
				shutdownChan <- true
			}
		}
		logger.Info("System socket closed the connection", "lock", l.id, "reason", l.client.Err())
	}()
	return shutdownChan, nil
}

func (l *lock) close() {
	if l.client != nil {
		_ = l.client.Close()
	}
}
