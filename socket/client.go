package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Client is one connection to the system socket. Its methods may be called from
// any goroutine.
type Client struct {
	path   string
	nc     *net.UnixConn
	events chan Event
	quit   chan struct{} // closed by Close
	once   sync.Once

	write sync.Mutex

	mu  sync.Mutex
	err error // why events was closed
}

// Dial connects to the socket at path (RootPath, RestartPath).
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("system socket: %w", err)
	}
	c := &Client{
		path:   path,
		nc:     nc.(*net.UnixConn),
		events: make(chan Event, 1),
		quit:   make(chan struct{}),
	}
	go c.read()
	return c, nil
}

// Send connects, sends one command, and waits until PID 1 has read it. There is
// no reply in the protocol: nil does not say that the command was taken.
func Send(ctx context.Context, path string, cmd Command) error {
	c, err := Dial(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Send(ctx, cmd); err != nil {
		return err
	}
	if err := c.nc.CloseWrite(); err != nil {
		return fmt.Errorf("system socket %s: %s: %w", path, cmd, err)
	}
	for {
		select {
		case _, open := <-c.Events(): // PID 1 hangs up once it has read the end
			if !open {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("system socket %s: %s was sent, but not seen to be read: %w", path, cmd, ctx.Err())
		}
	}
}

// Shutdown asks for a power-off with grace.
func (c *Client) Shutdown(ctx context.Context) error { return c.Send(ctx, Shutdown) }

// Reboot asks for a reboot with grace.
func (c *Client) Reboot(ctx context.Context) error { return c.Send(ctx, Reboot) }

// RestartKubelet asks PID 1 to restart the kubelet.
func (c *Client) RestartKubelet(ctx context.Context) error { return c.Send(ctx, RestartKubelet) }

// RestartRuntime asks PID 1 to restart the container runtime.
func (c *Client) RestartRuntime(ctx context.Context) error { return c.Send(ctx, RestartRuntime) }

// Continue releases the kubelet's lock. Call it only after EventShutdown came on
// this very connection: outside a shutdown it powers the machine off at once.
func (c *Client) Continue(ctx context.Context) error { return c.Send(ctx, Continue) }

// Send writes one command. ctx bounds the write.
func (c *Client) Send(ctx context.Context, cmd Command) error {
	c.write.Lock()
	defer c.write.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("system socket %s: %s: %w", c.path, cmd, err)
	}
	c.nc.SetWriteDeadline(time.Time{})
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.nc.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	_, err := c.nc.Write([]byte{byte(cmd)})
	if !stop() {
		<-interrupted // or it would hit the next command
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("system socket %s: %s: %w", c.path, cmd, err)
	}
	return nil
}

// Events delivers what PID 1 sends, unknown bytes included, and is closed when
// the connection ends; Err then says why.
func (c *Client) Events() <-chan Event { return c.events }

// Err is why Events was closed: io.EOF if PID 1 hung up, net.ErrClosed after
// Close, nil as long as the connection stands.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close closes the connection, which also releases a lock held by it.
func (c *Client) Close() error {
	var err error
	c.once.Do(func() {
		close(c.quit)
		err = c.nc.Close()
	})
	return err
}

func (c *Client) read() {
	defer close(c.events)
	buf := make([]byte, 16)
	for {
		n, err := c.nc.Read(buf)
		for _, b := range buf[:n] {
			select {
			case c.events <- Event(b):
			case <-c.quit:
				c.fail(net.ErrClosed)
				return
			}
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				err = net.ErrClosed
			} else if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("system socket %s: %w", c.path, err)
			}
			c.fail(err)
			return
		}
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
}
