package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// rootedLeaks is what a service with an image has of the node that a container has not:
// descriptors, capabilities, a way to its files through processes. Root with the usual
// capabilities (frozen) gets to the files of those alone that have no other capability.
func rootedLeaks(frozen bool) (out []error) {
	wrong := func(format string, args ...any) { out = append(out, fmt.Errorf(format, args...)) }
	// Of cri-o's nine the program has the one that its file has.
	rights := map[string]string{"CapInh": "0", "CapPrm": rootedCaps, "CapEff": rootedCaps, "CapAmb": "0", "CapBnd": "5fb"}
	if frozen {
		rights["CapPrm"], rights["CapEff"] = "5fb", "5fb"
	}
	for field, want := range rights {
		if got, err := statusField("/proc/self/status", field); err != nil || strings.TrimLeft(got, "0") != strings.TrimLeft(want, "0") {
			wrong("%s: %s %v, want %s", field, got, err, want)
		}
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil || len(list) < 3 {
		wrong("descriptors: %v %v", list, err)
	}
	for _, e := range list {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil { // that of the directory is closed by now
			continue
		}
		if strings.HasPrefix(to, "/sys/fs/cgroup/") && strings.HasSuffix(to, "/cpu.max") {
			continue // this program's: Go looks how many processors it has
		}
		if !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:") && !strings.HasSuffix(to, "/null") && !strings.HasPrefix(to, "/proc/") {
			wrong("descriptor %s is %s", e.Name(), to)
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(processes) < 3 {
		wrong("processes: %v %v", processes, err)
	}
	for _, p := range processes {
		for _, way := range []string{"root", "cwd"} {
			if _, err := os.Stat(p + "/" + way + "/usr/lib/garboard/node.json"); err == nil {
				name, _ := os.ReadFile(p + "/comm")
				wrong("the node's files are seen through %s/%s (%s)", p, way, strings.TrimSpace(string(name)))
			}
		}
	}
	return out
}
