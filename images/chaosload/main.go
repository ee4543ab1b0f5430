// Command chaosload is the program of the images that the power-cut tests pull:
// it says whether the files of its own image are whole, and stays.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"garboard.local/qemu/chaos/content"
)

func main() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	nonce := ""
	if b, err := os.ReadFile("/proc/cmdline"); err == nil {
		for w := range strings.FieldsSeq(string(b)) {
			if v, ok := strings.CutPrefix(w, "garboard.nonce="); ok {
				nonce = v
			}
		}
	}
	files, err := content.Read("/")
	if err != nil {
		fmt.Printf("chaosload: %s broken %q\n", nonce, err)
	} else {
		fmt.Printf("chaosload: %s whole %s %d\n", nonce, content.Sum(files), len(files))
	}
	<-term
}
