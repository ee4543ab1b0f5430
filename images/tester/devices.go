package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func init() {
	// The drivers of a machine's disks and network cards are there, by what
	// garboard.expect= on the kernel command line lists: "disk:DRIVER", "nic:DRIVER",
	// "var:DRIVER" (of the disk that holds /var); "late:DRIVER" is a disk that is
	// plugged in once the tester asks for it.
	scenarios["devices"] = scenario{func(g *guest) error {
		return errors.Join(checkRunning(g), g.checkDevices("/sys"))
	}, stay}
}

// deviceCeiling is a driver's time to find its device.
const deviceCeiling = 60 * time.Second

func (g *guest) checkDevices(sys string) error {
	cmdline, err := os.ReadFile(filepath.Join(g.proc, "cmdline"))
	if err != nil {
		return err
	}
	expected := parameter(string(cmdline), "garboard.expect")
	if expected == "" {
		return errors.New("no garboard.expect= on the kernel command line")
	}
	var errs []error
	for word := range strings.SplitSeq(expected, ",") {
		kind, driver, _ := strings.Cut(word, ":")
		if kind == "late" {
			if found, _ := disksOf(sys, driver); len(found) > 0 {
				errs = append(errs, fmt.Errorf("%s: %v are there before they are plugged in", word, found))
			}
			g.say("devices: waiting for the late disk")
			kind = "disk"
		}
		errs = append(errs, within(deviceCeiling, func() error {
			switch kind {
			case "disk":
				found, seen := disksOf(sys, driver)
				if len(found) == 0 {
					return fmt.Errorf("%s: no disk has this driver; there are %s", word, seen)
				}
				g.say("devices: %s: %s", word, strings.Join(found, " "))
			case "nic":
				return g.checkCard(sys, driver)
			case "var":
				return g.checkVar(sys, driver)
			default:
				return fmt.Errorf("garboard.expect=: %q is not known", word)
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

// disksOf lists the disks with a driver among those of all devices that they are
// behind, and says which drivers all of them have.
func disksOf(sys, driver string) (found []string, seen string) {
	disks, _ := filepath.Glob(filepath.Join(sys, "block/*/device"))
	for _, d := range disks {
		name := filepath.Base(filepath.Dir(d))
		list := drivers(d)
		seen += fmt.Sprintf("%s (%s) ", name, strings.Join(list, " "))
		if slices.Contains(list, driver) {
			found = append(found, name)
		}
	}
	return found, seen
}

// drivers are those of a device and of what it is behind.
func drivers(device string) []string {
	var out []string
	dir, err := filepath.EvalSymlinks(device)
	for ; err == nil && len(dir) > 1; dir = filepath.Dir(dir) {
		if to, err := os.Readlink(filepath.Join(dir, "driver")); err == nil {
			out = append(out, filepath.Base(to))
		}
	}
	return out
}

// checkCard demands a network card with the driver that has an address.
func (g *guest) checkCard(sys, driver string) error {
	cards, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, c := range cards {
		if !slices.Contains(drivers(filepath.Join(sys, "class/net", c.Name, "device")), driver) {
			continue
		}
		addrs, err := c.Addrs()
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
				g.say("devices: nic:%s: %s has %s", driver, c.Name, ip)
				return nil
			}
		}
		return fmt.Errorf("nic:%s: %s has no IPv4 address", driver, c.Name)
	}
	return fmt.Errorf("nic:%s: no network card has this driver", driver)
}

// checkVar demands that /var lies on a disk with the driver.
func (g *guest) checkVar(sys, driver string) error {
	b, err := os.ReadFile(filepath.Join(g.proc, "1/mountinfo"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[4] != "/var" {
			continue
		}
		// A partition's device is its disk's.
		list := drivers(filepath.Join(sys, "dev/block", f[2]))
		if !slices.Contains(list, driver) {
			return fmt.Errorf("var:%s: /var is on %s, behind %v", driver, f[2], list)
		}
		g.say("devices: var:%s: /var is on it", driver)
		return nil
	}
	return errors.New("PID 1 has no mount on /var")
}
