package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// words is a flag that may be given several times.
type words []string

func (w *words) String() string     { return strings.Join(*w, " ") }
func (w *words) Set(s string) error { *w = append(*w, s); return nil }

// run is a container's life: look, write what it was told to, and then go the way
// that is laid down for this run.
func run(args []string) error {
	var d diary
	var mounts, writes words
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	d.flags(f)
	f.Var(&mounts, "mount", "a path to look at, its files with their content")
	f.Var(&writes, "write", "PATH=CONTENT of a file to write")
	ways := f.String("ways", "0", "of each run in order, the last for all that follow: an exit status, "+
		"stay, sick (stay, with the liveness probe failing), or stubborn (sick, and SIGTERM does not end it)")
	listen := f.String("listen", "", "address to listen at, for probes")
	slow := f.Duration("slow", 0, "how long it takes before it listens or exits")
	if err := f.Parse(args); err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	look, err := lookAround(mounts)
	if err != nil {
		return err
	}
	syscall.Umask(0)
	if d.number, err = d.runs(); err != nil {
		return err
	}
	d.number++
	if err := d.write(Event{What: "start", Look: look}); err != nil {
		return err
	}
	for _, w := range writes {
		name, content, _ := strings.Cut(w, "=")
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	all := strings.Split(*ways, ",")
	way := all[min(d.number, len(all))-1]
	time.Sleep(*slow)
	if code, err := strconv.Atoi(way); err == nil {
		return d.exit(code)
	}
	if *listen != "" {
		l, err := net.Listen("tcp", *listen)
		if err != nil {
			return err
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
	}
	switch way {
	case "sick", "stubborn":
		err = os.WriteFile(d.file(".sick"), nil, 0o644)
	case "stay":
		if err = os.Remove(d.file(".sick")); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		err = fmt.Errorf("no way %q", way)
	}
	if err != nil {
		return err
	}
	return d.stay(signals, way == "stubborn")
}

// stay lives until a signal; who is stubborn says twice a second that it still does.
func (d *diary) stay(signals <-chan os.Signal, stubborn bool) error {
	if err := d.write(Event{What: "stays"}); err != nil {
		return err
	}
	for s := range signals {
		name := signalNames[s]
		if err := d.write(Event{What: name}); err != nil {
			return err
		}
		if !stubborn {
			return d.exit(0)
		}
		for len(signals) == 0 {
			time.Sleep(500 * time.Millisecond)
			if err := d.write(Event{What: "alive"}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *diary) exit(code int) error {
	err := d.write(Event{What: "exit", Code: code})
	if err == nil {
		os.Exit(code)
	}
	return err
}

var signalNames = map[os.Signal]string{
	syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
}
