// Command garboard holds the CNI plugins of a Garboard node in one program. It
// acts by the name it is called with: bridge, host-local, loopback or portmap.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	hostlocal "github.com/containernetworking/plugins/plugins/ipam/host-local"
	"github.com/containernetworking/plugins/plugins/main/bridge"
	"github.com/containernetworking/plugins/plugins/main/loopback"
	"github.com/containernetworking/plugins/plugins/meta/portmap"
)

func init() {
	// The bridge plugin changes network namespaces, which belong to threads: the
	// main goroutine must stay on the main one.
	runtime.LockOSThread()
}

func main() {
	plugins := map[string]func(){
		"bridge": bridge.Main, "host-local": hostlocal.Main, "loopback": loopback.Main, "portmap": portmap.Main,
	}
	name := filepath.Base(os.Args[0])
	plugin, ok := plugins[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: call this program as bridge, host-local, loopback or portmap\n", name)
		os.Exit(2)
	}
	plugin()
}
