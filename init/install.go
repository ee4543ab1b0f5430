package boot

import (
	"errors"
	"fmt"
	"runtime"

	"garboard.local/init/data"
	"garboard.local/init/shutdown"
)

const (
	mediumParam       = "garboard.medium" // an ISO's: the GUID of its partition table
	installParam      = "garboard.install"
	installForceParam = "garboard.install.force"
	installThenParam  = "garboard.install.then"
)

// install copies the node to a disk and ends it. After a failure nothing else is
// begun either: who asked for an installation did not ask for a live node, and the
// console is to show why there is none.
func (n *node) install(m *data.Manager, target string) error {
	then, force, err := installWords(n.cmdline[installThenParam], n.cmdline[installForceParam])
	if err == nil {
		err = safely(func() error {
			return m.Install(n.gate.ctx, data.Install{Target: target, Arch: runtime.GOARCH, Force: force})
		})
	}
	if err == nil {
		n.end.Ask(shutdown.Request{Mode: then, Who: "the installation"})
	} else {
		n.printf("install: FAILED: %s", oneLine(err))
		n.printf("install: nothing else is started; the power button or ctrl-alt-del ends this")
	}
	<-n.gate.ctx.Done()
	return err
}

// installWords reads what belongs to an installation.
func installWords(then, force string) (mode shutdown.Mode, over bool, err error) {
	switch then {
	case "", "poweroff":
		mode = shutdown.PowerOff
	case "reboot":
		mode = shutdown.Reboot
	default:
		err = fmt.Errorf("%s=%s: want poweroff or reboot", installThenParam, then)
	}
	if force != "" && force != "yes" {
		err = errors.Join(err, fmt.Errorf("%s=%s: want yes, or nothing", installForceParam, force))
	}
	return mode, force == "yes", err
}
