package chaos

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"garboard.local/qemu"
)

// Ledger holds what a disk's nodes have reported, which no power cut may take
// back, and what the present boot says of it.
type Ledger struct {
	// Sum is the content of an image that was pushed; "" if there is none.
	Sum func(ref string) string

	partition bool              // /var was on the data partition
	images    map[string]string // promised: IDs by name
	pods      map[string]string // promised: images by pod
	next      int               // the number of the first image that was never pulled
	promises  int               // how often any of these changed

	nonce   string
	now     sighting
	losses  []string
	lastOwn string // PID 1's last line
}

// sighting is what one boot says.
type sighting struct {
	begun, checked int
	fresh          bool              // a data partition was made
	images         map[string]string // sums by name, since the last begin of a check
	bad            []string
	pods           map[string]string // sums by pod, of what its container said
	pulling        string
	pulled         int // in this boot
	pod            int // manifests made in this boot
	online, idle   bool
	running        []string
	asked, clean   bool // PID 1's words on the shutdown
}

// NewLedger is the ledger of a new disk.
func NewLedger(sum func(string) string) *Ledger {
	return &Ledger{Sum: sum, images: map[string]string{}, pods: map[string]string{}}
}

// Boot begins a boot.
func (l *Ledger) Boot(nonce string) {
	l.nonce, l.losses, l.lastOwn = nonce, nil, ""
	l.now = sighting{images: map[string]string{}, pods: map[string]string{}}
}

// copy is a ledger that goes its own way from here.
func (l *Ledger) copy() *Ledger {
	c := NewLedger(l.Sum)
	c.partition, c.next = l.partition, l.next
	c.images, c.pods = maps.Clone(l.images), maps.Clone(l.pods)
	c.promises = l.promises
	return c
}

// Promised says how much a power cut may not take.
func (l *Ledger) Promised() (images, pods int) { return len(l.images), len(l.pods) }

func (l *Ledger) lose(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(l.losses, s) {
		l.losses = append(l.losses, s)
	}
}

// diskTrouble is what PID 1 says when the data partition is not what it was.
var diskTrouble = regexp.MustCompile(`^data: (?:WARNING: the data partition is NOT used|no data partition|/dev/\S+ is damaged|/dev/\S+ has no superblock|/dev/\S+ was repaired|/dev/\S+ cannot be repaired|making an ext4 file system)`)

// Note reads a line of the console.
func (l *Ledger) Note(line qemu.Line) {
	if own, ok := line.Own(); ok {
		l.lastOwn = own
		l.noteOwn(own)
		return
	}
	if p, ok := line.Pod(); ok {
		if words := strings.Fields(p.Text); p.Container == "load" && len(words) >= 4 && words[0] == "chaosload:" && words[1] == l.nonce {
			name, _, _ := cutNode(p.Pod)
			l.now.pods[name] = words[3]
			if words[2] != "whole" {
				l.now.pods[name] = p.Text
			}
		}
		return
	}
	words := fields(line.Message)
	if len(words) >= 3 && words[0] == "chaos:" && words[1] == l.nonce {
		l.noteGuest(words[2], words[3:])
	}
}

func (l *Ledger) noteOwn(own string) {
	if l.partition && diskTrouble.MatchString(own) {
		l.lose("data partition: %s", own)
	}
	switch {
	case strings.HasPrefix(own, "data: making an ext4 file system"):
		l.now.fresh = true
	case strings.HasPrefix(own, "data: /dev/") && strings.Contains(own, " on /var, "):
		l.partition = true
		l.promises++
	case strings.HasPrefix(own, "shutdown requested by "):
		l.now.asked = true
	case own == "shutdown: clean":
		l.now.clean = true
	}
}

// noteGuest takes a word of images/chaos.
func (l *Ledger) noteGuest(word string, args []string) {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch word {
	case "pulling", "pulled", "removing", "pod", "unpod":
		l.promises++
	}
	switch word {
	case "begin":
		l.now.begun++
	case "image":
		l.now.images[arg(0)] = arg(2)
	case "damaged", "unlisted":
		l.now.bad = append(l.now.bad, word+" "+strings.Join(args, " "))
	case "checked":
		l.judgeImages()
		l.now.checked++
		l.now.images, l.now.bad = map[string]string{}, nil
	case "online":
		l.now.online = true
	case "pulling":
		l.now.pulling = arg(0)
		delete(l.images, arg(0))
	case "pulled":
		l.images[arg(0)] = arg(1)
		l.now.pulled++
		l.next = max(l.next, number(arg(0))+1)
	case "removing":
		delete(l.images, arg(0))
	case "pod":
		l.pods[arg(0)] = arg(1)
		l.now.pod++
	case "unpod":
		delete(l.pods, arg(0))
	case "running":
		l.now.running = append(l.now.running, arg(0))
	case "notrunning":
		l.lose("pod %s does not run again after a kill", arg(0))
	case "broken":
		l.lose("the guest's half gave up: %s", strings.Join(args, " "))
	case "ended": // in the middle of its work
		if !l.now.asked {
			l.lose("the guest's half was told to end, though nobody had asked for a shutdown: %s", strings.Join(args, " "))
		}
	case "idle":
		l.now.idle = true
	}
}

// judgeImages compares what the guest found with what was promised, and what it
// found with what was pushed.
func (l *Ledger) judgeImages() {
	for _, bad := range l.now.bad {
		l.lose("image %s", bad)
	}
	for _, ref := range slices.Sorted(maps.Keys(l.images)) {
		if _, there := l.now.images[ref]; !there && !l.complained(ref) {
			l.lose("image %s had been reported as pulled and is gone (%d images are there)", ref, len(l.now.images))
		}
		if _, there := l.now.images[ref]; !there {
			delete(l.images, ref) // lost once, not at every boot
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(l.now.images)) {
		if got, want := l.now.images[ref], l.Sum(ref); got != want || want == "" {
			promise := "nobody had promised it"
			if _, ok := l.images[ref]; ok {
				promise = "it had been reported as pulled"
			}
			l.lose("image %s is listed and not what was pushed: sum %s, want %s (%s)", ref, got, want, promise)
			delete(l.images, ref)
		}
	}
}

func (l *Ledger) complained(ref string) bool {
	return slices.ContainsFunc(l.now.bad, func(s string) bool { return strings.Contains(s, ref+" ") })
}

// missingPods are the promised pods that have not shown themselves in this boot.
func (l *Ledger) missingPods() (missing []string) {
	for _, p := range slices.Sorted(maps.Keys(l.pods)) {
		if _, there := l.now.pods[p]; !there {
			missing = append(missing, p)
		}
	}
	return missing
}

// judgePods closes the account of the pods that were promised before this boot.
func (l *Ledger) judgePods() {
	for _, p := range slices.Sorted(maps.Keys(l.pods)) {
		switch got, there := l.now.pods[p]; {
		case !there:
			l.lose("pod %s (%s) does not run again", p, l.pods[p])
			delete(l.pods, p)
		case got != l.Sum(l.pods[p]):
			l.lose("pod %s (%s) sees files that are not what was pushed: %s", p, l.pods[p], got)
			delete(l.pods, p)
		}
	}
}

// cutNode takes the node's name off a static pod's: chaosload-3-garboard.
func cutNode(pod string) (name, node string, ok bool) {
	parts := strings.SplitN(pod, "-", 3)
	if len(parts) < 3 {
		return pod, "", false
	}
	return parts[0] + "-" + parts[1], parts[2], true
}

// fields splits at spaces, but not inside a quoted string as %q writes it.
func fields(s string) (out []string) {
	for s = strings.TrimLeft(s, " "); s != ""; s = strings.TrimLeft(s, " ") {
		word, rest, _ := strings.Cut(s, " ")
		if q, err := strconv.QuotedPrefix(s); err == nil {
			word, rest = q, s[len(q):]
			if u, err := strconv.Unquote(q); err == nil {
				word = u
			}
		}
		out, s = append(out, word), rest
	}
	return out
}
