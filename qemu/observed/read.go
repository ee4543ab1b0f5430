package observed

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Event is one line that a container wrote down (images/observer).
type Event struct {
	Who  string `json:"who"` // POD/CONTAINER
	What string `json:"what"`
	Run  int    `json:"run"`
	At   int64  `json:"at"` // ns since the machine's boot
	Code int    `json:"code"`
	Look *Look  `json:"look"`
}

// Look is what a process saw of itself when it began.
type Look struct {
	UID        int               `json:"uid"`
	GID        int               `json:"gid"`
	Groups     []int             `json:"groups"`
	Status     map[string]string `json:"status"`
	Umask      int               `json:"umask"`
	Dir        string            `json:"dir"`
	Args       []string          `json:"args"`
	Env        []string          `json:"env"`
	Hostname   string            `json:"hostname"`
	Interfaces []string          `json:"interfaces"`
	Namespaces map[string]string `json:"namespaces"`
	OOM        string            `json:"oom"`
	Stdin      string            `json:"stdin"`
	First      bool              `json:"first"`
	Processes  bool              `json:"processes"`
	Root       string            `json:"root"`
	Devices    string            `json:"devices"`
	Sysctl     string            `json:"sysctl"`
	Paths      map[string]Path   `json:"paths"`
}

// Path is what it saw of a mount.
type Path struct {
	Mode  string            `json:"mode"`
	Owner string            `json:"owner"`
	Type  string            `json:"type"`
	Write string            `json:"write"`
	Files map[string]string `json:"files"`
}

// Report is everything that a guest printed.
type Report struct {
	Events     []Event           `json:"events"`
	Namespaces map[string]string `json:"namespaces"` // the machine's
	Status     string            `json:"status"`     // a kubelet's list of pods, what systemctl show said, or PID 1's list of services
	Left       []string          `json:"left"`       // of the ended pod's directories
	Troubles   []string          `json:"troubles"`   // of the collector
}

// maxReport is the largest report that is read, in bytes.
const maxReport = 16 << 20

// Prefix begins every line of a report; the run's nonce, NUMBER/COUNT and a piece follow.
const Prefix = "OBSERVED "

// Read reads a report from the lines of a console. It must be there whole, once, and in order.
func Read(lines []string, nonce string) (*Report, error) {
	var text strings.Builder
	next, count := 1, 0
	for _, l := range lines {
		_, l, ok := strings.Cut(l, Prefix+nonce+" ")
		if !ok {
			continue
		}
		var number, of int
		var piece string
		if n, err := fmt.Sscanf(l, "%d/%d %s", &number, &of, &piece); n != 3 || err != nil {
			return nil, fmt.Errorf("report: malformed line %q", l)
		}
		if count == 0 {
			count = of
		}
		if number != next || of != count {
			return nil, fmt.Errorf("report: line %d/%d came where %d/%d was due", number, of, next, count)
		}
		next++
		text.WriteString(piece)
	}
	if count == 0 || next != count+1 {
		return nil, fmt.Errorf("report: %d of %d lines came", next-1, count)
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text.String())))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, maxReport))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return &r, nil
}
