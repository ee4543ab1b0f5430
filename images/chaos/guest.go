package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"garboard.local/qemu/chaos/content"
)

const (
	// repository is where the images are, as the node sees it: relay carries the
	// registry of the host there, so that its port is in no configuration.
	registryAddress = "127.0.0.1:5000"
	repository      = registryAddress + "/chaos"
	hostAddress     = "10.0.2.2" // of QEMU's user network

	keepImages = 5 // older ones are removed, which a power cut may hit as well
	keepPods   = 2
)

func ref(i int) string { return fmt.Sprintf("%s:%d", repository, i) }

// number is the i of ref(i), or -1.
func number(ref string) int {
	tag, ok := strings.CutPrefix(ref, repository+":")
	i, err := strconv.Atoi(tag)
	if !ok || err != nil {
		return -1
	}
	return i
}

type guest struct {
	orders
	root    string // the node's
	runtime runtime
	say     func(format string, args ...any)
}

func (g *guest) run(ctx context.Context) error {
	g.say("begin")
	if err := g.check(ctx); err != nil {
		return err
	}
	if g.count == 0 {
		return nil
	}
	if err := g.relay(ctx); err != nil {
		return err
	}
	killed := make(chan error, 1)
	go func() { killed <- g.kill(ctx) }()
	for i := g.first; i < g.first+g.count; i++ {
		if err := g.step(ctx, i); err != nil {
			return err
		}
	}
	if err := <-killed; err != nil {
		return err
	}
	if g.kills > 0 {
		if err := g.check(ctx); err != nil {
			return err
		}
		if err := g.settle(ctx); err != nil {
			return err
		}
	}
	g.say("idle")
	return nil
}

// check says of each image in the store whether it is whole, and which the
// runtime lists.
func (g *guest) check(ctx context.Context) error {
	var listed map[string]string
	err := g.again(ctx, "list images", func() (err error) {
		listed, err = g.runtime.list(ctx)
		return err
	})
	if err != nil {
		return err
	}
	images, err := content.Store(filepath.Join(g.root, "var/lib/containers/storage"))
	if err != nil {
		g.say("damaged - - %q", err)
	}
	whole := map[string]bool{}
	for _, i := range images {
		for _, name := range i.Names {
			if number(name) < 0 {
				continue
			}
			whole[name] = true
			g.sayImage(name, i)
			if listed[name] != i.ID {
				g.say("unlisted %s %s", name, i.ID)
			}
		}
	}
	for name, id := range listed {
		if number(name) >= 0 && !whole[name] {
			g.say("damaged %s %s %q", name, id, errors.New("listed, but the store has no record of it"))
		}
	}
	g.say("checked %d", len(whole))
	return nil
}

func (g *guest) sayImage(name string, i content.Image) {
	files, err := content.Read(i.Layers...)
	if err != nil {
		g.say("damaged %s %s %q", name, i.ID, err)
		return
	}
	g.say("image %s %s %s %d", name, i.ID, content.Sum(files), len(files))
}

// step pulls an image, has the kubelet run it, and tidies up.
func (g *guest) step(ctx context.Context, i int) error {
	g.say("pulling %s", ref(i))
	err := g.again(ctx, "pull", func() error {
		id, err := g.runtime.pull(ctx, ref(i))
		if err == nil {
			g.say("pulled %s %s", ref(i), id)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := g.makePod(i); err != nil {
		return fmt.Errorf("pod %d: %w", i, err)
	}
	pods, err := g.pods()
	if err != nil {
		return err
	}
	for len(pods) > keepPods {
		if err := g.removePod(pods[0]); err != nil {
			return err
		}
		pods = pods[1:]
	}
	return g.tidy(ctx, pods)
}

// tidy removes the oldest images that no pod uses. What the runtime refuses it
// still holds for a container that is about to end; the next turn takes it.
func (g *guest) tidy(ctx context.Context, pods []int) error {
	listed, err := g.runtime.list(ctx)
	if err != nil {
		return nil // the runtime is being killed; the next turn will do
	}
	var have []int
	for name := range listed {
		if n := number(name); n >= 0 {
			have = append(have, n)
		}
	}
	slices.Sort(have)
	for len(have) > keepImages {
		if !slices.Contains(pods, have[0]) {
			g.say("removing %s", ref(have[0]))
			if err := g.runtime.remove(ctx, ref(have[0])); err == nil {
				g.say("removed %s", ref(have[0]))
			}
		}
		have = have[1:]
	}
	return nil
}

// again repeats what fails while the runtime is down; each failure is said.
func (g *guest) again(ctx context.Context, what string, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if err == nil || ctx.Err() != nil {
			return err
		}
		g.say("failed %q", fmt.Errorf("%s, try %d: %w", what, n, err))
		if n == 30 {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// relay waits for the host's registry and carries connections there.
func (g *guest) relay(ctx context.Context) error {
	far := net.JoinHostPort(hostAddress, strconv.Itoa(g.port))
	d := net.Dialer{Timeout: 5 * time.Second}
	for {
		c, err := d.DialContext(ctx, "tcp", far)
		if err == nil {
			c.Close()
			break
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.say("online")
	l, err := net.Listen("tcp", registryAddress)
	if err != nil {
		return err
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer near.Close()
				c, err := d.DialContext(ctx, "tcp", far)
				if err != nil {
					return
				}
				defer c.Close()
				go func() {
					io.Copy(c, near)
					c.(*net.TCPConn).CloseWrite()
				}()
				io.Copy(near, c)
			}()
		}
	}()
	return nil
}

// victims are the programs that are killed: the runtime, the kubelet, a
// container's monitor.
var victims = []string{"crio", "kubelet", "conmon"}

// kill kills processes of the node at random moments.
func (g *guest) kill(ctx context.Context) error {
	for n := range g.kills {
		select {
		case <-time.After(rand.N(4 * time.Second)):
		case <-ctx.Done():
			return nil
		}
		name := victims[(g.first+n)%len(victims)]
		pids, err := processes("/proc", name)
		if err != nil {
			return err
		}
		// This container's monitor is its parent.
		pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getppid() })
		if len(pids) == 0 { // it is just being started again
			g.say("kill %s: there is none", name)
			continue
		}
		p, err := os.FindProcess(pids[rand.IntN(len(pids))])
		if err == nil {
			err = p.Kill()
		}
		g.say("kill %s %v %q", name, pids, fmt.Sprint(err))
	}
	return nil
}

// processes are the pids of the node's processes with this program name. Those
// of the test itself are left out: whoever kills its own monitor sees no more.
func processes(proc, name string) (pids []int, err error) {
	own, _ := os.ReadFile(filepath.Join(proc, "self/cgroup"))
	entries, err := os.ReadDir(proc)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		comm, err1 := os.ReadFile(filepath.Join(proc, e.Name(), "comm"))
		group, err2 := os.ReadFile(filepath.Join(proc, e.Name(), "cgroup"))
		if err1 != nil || err2 != nil || strings.TrimSpace(string(comm)) != name || samePod(string(own), string(group)) {
			continue
		}
		pids = append(pids, pid)
	}
	return pids, err
}

// samePod compares the pods of two cgroup files: kubepods/.../pod<uid>/...
func samePod(a, b string) bool {
	return podOf(a) != "" && podOf(a) == podOf(b)
}

func podOf(cgroup string) string {
	for part := range strings.SplitSeq(strings.TrimSpace(cgroup), "/") {
		if strings.HasPrefix(part, "pod") {
			return part
		}
	}
	return ""
}
