//go:build linux

package nodeshutdown

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	pkgfeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown/systemsocket"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/third_party/garboard/socket"
)

// TestSystemSocket drives the manager's own start and stop loop against a real
// server of the system socket.
func TestSystemSocket(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, pkgfeatures.GracefulNodeShutdown, true)
	lock.Lock()
	defer lock.Unlock()
	systemDbusTmp := systemDbus
	defer func() {
		systemDbus = systemDbusTmp
	}()
	// A manager's loop never ends. Those that other tests left behind would
	// take this test's lock: let them run into a call that does not return.
	systemDbus = func() (dbusInhibiter, error) { select {} }
	time.Sleep(2 * dbusReconnectPeriod)

	t.Run("three reconnects, then a shutdown", func(t *testing.T) {
		n := newSocketNode(t)
		n.serve()
		n.startManager()
		for i := 0; i < 3; i++ {
			n.waitHolder()
			require.NoError(t, n.server.Close())
			// Nobody is there for a while, longer than one attempt takes.
			time.Sleep(time.Duration(i) * dbusReconnectPeriod)
			n.serve()
		}
		n.waitHolder()
		assert.NoError(t, n.manager.ShutdownStatus())
		n.expectShutdown(n.server.BeginShutdown())
		assert.Equal(t, []string{"critical", "normal"}, n.killedPods())
	})

	t.Run("late first connection", func(t *testing.T) {
		n := newSocketNode(t)
		n.startManager()
		time.Sleep(2 * dbusReconnectPeriod)
		n.serve()
		n.waitHolder()
		grace, err := socket.ReadGrace(n.grace)
		require.NoError(t, err)
		assert.Equal(t, 30*time.Second, grace)
		n.expectShutdown(n.server.BeginShutdown())
	})

	t.Run("connects while a shutdown runs", func(t *testing.T) {
		n := newSocketNode(t)
		n.serve()
		shutdown := n.server.BeginShutdown()
		n.startManager()
		n.waitHolderOr(shutdown)
		n.expectShutdown(shutdown)
		assert.Equal(t, []string{"critical", "normal"}, n.killedPods())
	})

	t.Run("lock is held until the pods are ended", func(t *testing.T) {
		n := newSocketNode(t)
		n.block = make(chan struct{})
		n.serve()
		n.startManager()
		n.waitHolder()
		shutdown := n.server.BeginShutdown()
		assert.Equal(t, socket.TimedOut, n.wait(shutdown, 2*dbusReconnectPeriod))
		assert.Error(t, n.manager.ShutdownStatus())
		assert.False(t, n.manager.Admit(nil).Admit)
		close(n.block)
		n.expectShutdown(shutdown)
	})

	t.Run("connection is lost in the middle of a shutdown", func(t *testing.T) {
		n := newSocketNode(t)
		n.block = make(chan struct{})
		n.serve()
		n.startManager()
		n.waitHolder()
		n.server.BeginShutdown()
		require.Eventually(t, func() bool { return n.manager.ShutdownStatus() != nil }, 10*time.Second, time.Millisecond)
		require.NoError(t, n.server.Close())
		n.serve()
		shutdown := n.server.BeginShutdown()
		close(n.block) // the lock that is now released is gone
		n.waitHolderOr(shutdown)
		n.expectShutdown(shutdown)
	})

	t.Run("connection closes after the shutdown was processed", func(t *testing.T) {
		n := newSocketNode(t)
		n.serve()
		n.startManager()
		for i := 0; i < 3; i++ {
			n.waitHolder()
			n.expectShutdown(n.server.BeginShutdown())
			require.NoError(t, n.server.Close())
			n.serve()
		}
		n.waitHolder()
		assert.Error(t, n.manager.ShutdownStatus(), "a shutdown is never taken back")
	})

	t.Run("event comes twice on a connection", func(t *testing.T) {
		n := newSocketNode(t)
		l, err := socket.Listen(n.path, socket.RootMode)
		require.NoError(t, err)
		n.startManager()
		c, err := l.AcceptUnix()
		require.NoError(t, err)
		_, err = c.Write([]byte{0x01, 0x01})
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(2*dbusReconnectPeriod)))
		got := make([]byte, 16)
		k, err := c.Read(got)
		require.NoError(t, err)
		assert.Equal(t, []byte{0x02}, got[:k])
		_, err = c.Read(got)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "said continue twice, or hung up")
		assert.Equal(t, []string{"critical", "normal"}, n.killedPods())
		require.NoError(t, l.Close())
		require.NoError(t, c.Close())
	})

	t.Run("a closed connection does not make it spin", func(t *testing.T) {
		n := newSocketNode(t)
		l, err := socket.Listen(n.path, socket.RootMode)
		require.NoError(t, err)
		n.startManager()
		time.AfterFunc(3*dbusReconnectPeriod+dbusReconnectPeriod/2, func() { _ = l.Close() })
		accepted := 0
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				break
			}
			accepted++
			_ = c.Close()
		}
		assert.GreaterOrEqual(t, accepted, 3)
		assert.LessOrEqual(t, accepted, 4)
	})
}

// socketNode is a manager with two pods and the PID 1 it talks to.
type socketNode struct {
	t           *testing.T
	path, grace string
	server      *socket.Server
	manager     Manager
	block       chan struct{} // if set, the pods end once it is closed

	mu     sync.Mutex
	killed map[string]bool
	ended  bool
	parked chan struct{}
}

func newSocketNode(t *testing.T) *socketNode {
	dir, err := os.MkdirTemp("", "socket") // t.TempDir's path is too long for a socket
	require.NoError(t, err)
	n := &socketNode{t: t, path: filepath.Join(dir, "s"), grace: filepath.Join(dir, "grace"),
		killed: map[string]bool{}, parked: make(chan struct{})}
	inhibitor := systemsocket.New(n.path, n.grace)
	systemDbus = func() (dbusInhibiter, error) {
		n.mu.Lock()
		ended := n.ended
		n.mu.Unlock()
		if ended {
			close(n.parked)
			select {}
		}
		return inhibitor, nil
	}
	t.Cleanup(func() {
		n.mu.Lock()
		n.ended = true
		n.mu.Unlock()
		if n.server != nil {
			assert.NoError(t, n.server.Close())
		}
		if n.manager != nil {
			select {
			case <-n.parked:
			case <-time.After(10 * time.Second):
				t.Error("the manager does not try to connect again")
			}
		}
		assert.NoError(t, os.RemoveAll(dir))
	})
	return n
}

// serve starts PID 1's side; the kubelet it waits for is this process.
func (n *socketNode) serve() {
	n.t.Helper()
	n.server = &socket.Server{Handler: neverAsked{n.t}, KubeletPID: os.Getpid}
	require.NoError(n.t, n.server.Listen(socket.Root, n.path))
}

func (n *socketNode) startManager() {
	n.t.Helper()
	logger, tCtx := ktesting.NewTestContext(n.t)
	pods := []*v1.Pod{
		makePod("normal", scheduling.DefaultPriorityWhenNoDefaultClassExists, nil),
		makePod("critical", scheduling.SystemCriticalPriority, nil),
	}
	n.manager = NewManager(&Config{
		Logger:        logger,
		VolumeManager: volumemanager.NewFakeVolumeManager([]v1.UniqueVolumeName{}, 0, nil, false),
		Recorder:      &record.FakeRecorder{},
		NodeRef:       &v1.ObjectReference{Kind: "Node", Name: "test", UID: "test"},
		GetPodsFunc:   func() []*v1.Pod { return pods },
		KillPodFunc: func(pod *v1.Pod, evict bool, gracePeriodOverride *int64, fn func(podStatus *v1.PodStatus)) error {
			if n.block != nil {
				<-n.block
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.killed[pod.Name] = true
			return nil
		},
		SyncNodeStatusFunc:              func(context.Context) {},
		ShutdownGracePeriodRequested:    30 * time.Second,
		ShutdownGracePeriodCriticalPods: 10 * time.Second,
		StateDirectory:                  n.t.TempDir(),
	})
	require.NoError(n.t, n.manager.Start(tCtx))
}

func (n *socketNode) waitHolder() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, ok := n.server.WaitHolder(ctx)
	require.True(n.t, ok, "expected the manager to hold a lock")
}

// waitHolderOr is waitHolder during a shutdown, whose lock may be gone again already.
func (n *socketNode) waitHolderOr(shutdown *socket.ShutdownHandle) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		_, ok := n.server.Holder()
		return ok || n.wait(shutdown, time.Millisecond) == socket.Continued
	}, 10*time.Second, time.Millisecond)
}

func (n *socketNode) wait(shutdown *socket.ShutdownHandle, limit time.Duration) socket.Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return shutdown.Wait(ctx)
}

func (n *socketNode) expectShutdown(shutdown *socket.ShutdownHandle) {
	n.t.Helper()
	require.Equal(n.t, socket.Continued, n.wait(shutdown, 10*time.Second))
	assert.Error(n.t, n.manager.ShutdownStatus())
	assert.False(n.t, n.manager.Admit(nil).Admit)
}

func (n *socketNode) killedPods() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	for _, name := range []string{"critical", "normal"} {
		if n.killed[name] {
			names = append(names, name)
		}
	}
	return names
}

// neverAsked is a PID 1 whom the kubelet asks for nothing; above all it never
// sends the byte that powers off outside a shutdown.
type neverAsked struct{ t *testing.T }

func (p neverAsked) Shutdown(r socket.Request)    { p.t.Errorf("shutdown asked for by %v", r) }
func (p neverAsked) Reboot(r socket.Request)      { p.t.Errorf("reboot asked for by %v", r) }
func (p neverAsked) PowerOffNow(r socket.Request) { p.t.Errorf("power-off asked for by %v", r) }
func (p neverAsked) RestartKubelet(r socket.Request) {
	p.t.Errorf("kubelet restart asked for by %v", r)
}
func (p neverAsked) RestartRuntime(r socket.Request) {
	p.t.Errorf("runtime restart asked for by %v", r)
}
