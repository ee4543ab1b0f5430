package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Event is one line of a container's file.
type Event struct {
	Who  string `json:"who"`  // POD/CONTAINER
	What string `json:"what"` // start, exit, a signal's name, alive, or what "event" was told
	Run  int    `json:"run"`  // of the container, from 1
	At   int64  `json:"at"`   // CLOCK_BOOTTIME in ns: one clock for all processes of a machine
	Code int    `json:"code,omitempty"`
	Look *Look  `json:"look,omitempty"` // at the start
}

// diary is a container's file of events.
type diary struct {
	dir, who string
	number   int
}

// flags are what all commands of a container take.
func (d *diary) flags(f *flag.FlagSet) {
	f.StringVar(&d.who, "as", "", "POD/CONTAINER that the events are of")
	f.StringVar(&d.dir, "to", "/observed", "directory of the events")
}

func (d *diary) file(suffix string) string {
	return filepath.Join(d.dir, strings.ReplaceAll(d.who, "/", ".")+suffix)
}

// runs is how often the container was started so far.
func (d *diary) runs() (int, error) {
	b, err := os.ReadFile(d.file(".jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return bytes.Count(b, []byte(`"what":"start"`)), err
}

// bootTime is what At of an event is.
func bootTime() (int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano(), err
}

// write appends an event and is done when the line is whole in the file.
func (d *diary) write(e Event) error {
	now, err := bootTime()
	if err != nil {
		return err
	}
	e.Who, e.Run, e.At = d.who, d.number, now
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(d.file(".jsonl"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	fmt.Printf("observer: %s, run %d: %s\n", e.Who, e.Run, e.What) // for who reads the console
	return errors.Join(err, f.Close())
}

// event is a hook or a probe: it notes that it was called, and takes its time.
func event(args []string) error {
	var d diary
	f := flag.NewFlagSet("event", flag.ContinueOnError)
	d.flags(f)
	last := f.Duration("for", 0, "how long it takes; its end is an event too")
	fail := f.Bool("fail", false, "it exits with 1")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return fmt.Errorf("event: what is it called?")
	}
	syscall.Umask(0)
	var err error
	if d.number, err = d.runs(); err != nil {
		return err
	}
	err = d.write(Event{What: f.Arg(0)})
	if err == nil && *last > 0 {
		time.Sleep(*last)
		err = d.write(Event{What: f.Arg(0) + " ended"})
	}
	if err == nil && *fail {
		err = fmt.Errorf("%s fails, as it was told to", f.Arg(0))
	}
	return err
}

// sick is a probe: it fails if the container has said that it is sick.
func sick(args []string) error {
	var d diary
	f := flag.NewFlagSet("sick", flag.ContinueOnError)
	d.flags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if _, err := os.Stat(d.file(".sick")); err == nil {
		return fmt.Errorf("%s is sick", d.who)
	}
	return nil
}
