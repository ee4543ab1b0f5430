// Command guest is a whole userland of a few lines: as PID 1 of a small
// initramfs it lets the harness's own tests see a kernel and QEMU at work, each
// ending, and each wrong verdict, within seconds. It speaks as PID 1 and the
// tester pod of a real node do.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := os.MkdirAll("/proc", 0o755); err != nil {
		fmt.Println("garboard: fatal:", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("garboard: fatal:", err)
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		fmt.Println("garboard: fatal:", err)
	}
	values := map[string]string{}
	for _, word := range strings.Fields(string(cmdline)) {
		key, value, _ := strings.Cut(word, "=")
		values[key] = value
	}
	act(values["guest.do"], values["garboard.nonce"], values["garboard.test"])
	for {
		time.Sleep(time.Hour)
	}
}

func act(what, nonce, scenario string) {
	pod := func(format string, args ...any) {
		fmt.Printf("default/tester-guest/tester: "+format+"\n", args...)
	}
	fmt.Println("garboard: guest:", what)
	switch what {
	case "pass":
		pod("GARBOARD-VERDICT %s %s PASS", nonce, scenario)
		off()
	case "wrong-nonce":
		pod("GARBOARD-VERDICT %s0 %s PASS", nonce, scenario)
		off()
	case "fail":
		pod("GARBOARD-VERDICT %s %s FAIL on purpose", nonce, scenario)
		off()
	case "silent":
		off()
	case "reset":
		syscall.Sync()
		reboot(syscall.LINUX_REBOOT_CMD_RESTART)
	case "exit": // the kernel panics when PID 1 ends
		os.Exit(3)
	case "fatal":
		fmt.Println("garboard: fatal: on purpose")
	case "keys": // ctrl-alt-del
		reboot(syscall.LINUX_REBOOT_CMD_CAD_OFF)
		keys := make(chan os.Signal, 1)
		signal.Notify(keys, syscall.SIGINT)
		fmt.Println("garboard: guest: waits for ctrl-alt-del")
		<-keys
		fmt.Println("garboard: shutdown requested by ctrl-alt-del")
		fmt.Println("garboard: shutdown: clean")
		reboot(syscall.LINUX_REBOOT_CMD_RESTART)
	case "hang":
	}
}

func off() {
	fmt.Println("garboard: shutdown requested by guest")
	fmt.Println("garboard: shutdown: clean")
	reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}

func reboot(cmd int) {
	if err := syscall.Reboot(cmd); err != nil {
		fmt.Println("garboard: fatal: reboot:", err)
	}
}
