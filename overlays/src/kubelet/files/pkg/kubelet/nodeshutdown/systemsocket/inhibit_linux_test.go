//go:build linux

package systemsocket

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"

	"k8s.io/kubernetes/third_party/garboard/socket"
)

// pid1 counts what would end the machine without grace; nothing here may ask for it.
type pid1 struct{ poweredOff atomic.Int32 }

func (p *pid1) Shutdown(socket.Request)       {}
func (p *pid1) Reboot(socket.Request)         {}
func (p *pid1) PowerOffNow(socket.Request)    { p.poweredOff.Add(1) }
func (p *pid1) RestartKubelet(socket.Request) {}
func (p *pid1) RestartRuntime(socket.Request) {}

func serve(t *testing.T, path string) (*socket.Server, *pid1) {
	t.Helper()
	h := &pid1{}
	s := &socket.Server{Handler: h, KubeletPID: os.Getpid, Logf: t.Logf}
	require.NoError(t, s.Listen(socket.Root, path))
	t.Cleanup(func() { _ = s.Close() })
	return s, h
}

func paths(t *testing.T) (socketPath, gracePath string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "socket") // t.TempDir's path is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s"), filepath.Join(dir, "garboard/grace")
}

func wait(h *socket.ShutdownHandle, limit time.Duration) socket.Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return h.Wait(ctx)
}

func waitHolder(t *testing.T, s *socket.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, ok := s.WaitHolder(ctx)
	require.True(t, ok, "expected the kubelet to hold a lock")
}

// The manager's own sequence in acquireInhibitLock: take a new lock, then release the old one.
func TestReleaseOfStaleLockDoesNothing(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	path, grace := paths(t)
	s, h := serve(t, path)
	i := New(path, grace)

	first, err := i.InhibitShutdown()
	require.NoError(t, err)
	_, err = i.MonitorShutdown(logger)
	require.NoError(t, err)
	second, err := i.InhibitShutdown()
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	assert.NotZero(t, first)
	assert.NoError(t, i.ReleaseInhibitLock(first))
	waitHolder(t, s)

	events, err := i.MonitorShutdown(logger)
	require.NoError(t, err)
	shutdown := s.BeginShutdown()
	assert.True(t, <-events)
	assert.NoError(t, i.ReleaseInhibitLock(first))
	assert.Equal(t, socket.TimedOut, wait(shutdown, 200*time.Millisecond))
	assert.NoError(t, i.ReleaseInhibitLock(second))
	assert.Equal(t, socket.Continued, wait(shutdown, 10*time.Second))

	s.Close()
	_, open := <-events
	assert.False(t, open)
	assert.NoError(t, i.ReleaseInhibitLock(second), "a second release, on a closed connection")
	assert.Zero(t, h.poweredOff.Load())
}

// A lock that is released without a shutdown is given up, but the byte that would
// power the machine off is not sent.
func TestReleaseWithoutShutdown(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	path, grace := paths(t)
	s, h := serve(t, path)
	i := New(path, grace)
	lock, err := i.InhibitShutdown()
	require.NoError(t, err)
	events, err := i.MonitorShutdown(logger)
	require.NoError(t, err)
	waitHolder(t, s)

	assert.NoError(t, i.ReleaseInhibitLock(lock))
	_, open := <-events
	assert.False(t, open)
	assert.NotEqual(t, socket.TimedOut, wait(s.BeginShutdown(), 10*time.Second))
	assert.Zero(t, h.poweredOff.Load())
}

// The event counts once for each connection, however often and among whatever it comes.
func TestMonitorShutdownRepeatedAndUnknownEvents(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	path, grace := paths(t)
	l, err := socket.Listen(path, socket.RootMode)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	i := New(path, grace)
	_, err = i.InhibitShutdown()
	require.NoError(t, err)
	events, err := i.MonitorShutdown(logger)
	require.NoError(t, err)
	server, err := l.AcceptUnix()
	require.NoError(t, err)
	_, err = server.Write([]byte{0x00, 0xff, 0x02, 0x01, 0x01, 0x01})
	require.NoError(t, err)
	require.NoError(t, server.Close())
	var got []bool
	for event := range events {
		got = append(got, event)
	}
	assert.Equal(t, []bool{true}, got)
}

// PID 1 that cannot be reached is no error: it may be late, and the manager would
// never try again if its first start failed.
func TestSocketMissing(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	path, grace := paths(t)
	i := New(path, grace)
	for round := 0; round < 3; round++ {
		assert.NoError(t, i.OverrideInhibitDelay(time.Minute))
		lock, err := i.InhibitShutdown()
		require.NoError(t, err)
		assert.NotZero(t, lock)
		events, err := i.MonitorShutdown(logger)
		require.NoError(t, err)
		_, open := <-events
		assert.False(t, open)
		assert.NoError(t, i.ReleaseInhibitLock(lock))
	}
	_, err := socket.ReadGrace(grace)
	assert.ErrorIs(t, err, fs.ErrNotExist, "nothing is written where there is no PID 1 of ours")
}

func TestGraceFile(t *testing.T) {
	path, grace := paths(t)
	serve(t, path)
	// A figure of an earlier kubelet, whose period was longer.
	require.NoError(t, socket.WriteGrace(grace, time.Hour))
	i := New(path, grace)
	for _, period := range []time.Duration{30 * time.Second, 20 * time.Second, 90 * time.Second} {
		current, err := i.CurrentInhibitDelay()
		require.NoError(t, err)
		require.Less(t, current, period, "the manager overrides only a delay that is too short")
		require.NoError(t, i.OverrideInhibitDelay(period))
		require.NoError(t, i.ReloadLogindConf())
		current, err = i.CurrentInhibitDelay()
		require.NoError(t, err)
		assert.Equal(t, period, current)
		written, err := socket.ReadGrace(grace)
		require.NoError(t, err)
		assert.Equal(t, period, written)
		_, err = i.InhibitShutdown()
		require.NoError(t, err)
	}
}

// The socket may come just after the period was asked for.
func TestGraceFileOfALateSocket(t *testing.T) {
	path, grace := paths(t)
	i := New(path, grace)
	require.NoError(t, i.OverrideInhibitDelay(30*time.Second))
	serve(t, path)
	_, err := i.InhibitShutdown()
	require.NoError(t, err)
	written, err := socket.ReadGrace(grace)
	require.NoError(t, err)
	assert.Equal(t, 30*time.Second, written)
}

// The lock is held even if the period cannot be told.
func TestGraceFileNotWritable(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	path, grace := paths(t)
	s, _ := serve(t, path)
	require.NoError(t, os.WriteFile(filepath.Dir(grace), nil, 0600)) // a file where the directory should be
	i := New(path, grace)
	require.NoError(t, i.OverrideInhibitDelay(30*time.Second))
	_, err := i.InhibitShutdown()
	require.NoError(t, err)
	_, err = i.MonitorShutdown(logger)
	require.NoError(t, err)
	waitHolder(t, s)
}

// A server that dies in the middle of it: the release fails, and says so, but does not hang.
func TestReleaseOnALostConnection(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	path, grace := paths(t)
	l, err := socket.Listen(path, socket.RootMode)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	i := New(path, grace)
	lock, err := i.InhibitShutdown()
	require.NoError(t, err)
	events, err := i.MonitorShutdown(logger)
	require.NoError(t, err)
	server, err := l.AcceptUnix()
	require.NoError(t, err)
	_, err = server.Write([]byte{0x01})
	require.NoError(t, err)
	assert.True(t, <-events)
	require.NoError(t, server.Close())
	_, open := <-events
	assert.False(t, open)
	assert.ErrorIs(t, i.ReleaseInhibitLock(lock), net.ErrClosed)
}
