package observed

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func isSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// order says whether each container began after the last end of the init containers
// before it, and after the sidecars before it had started.
func (f *facts) order(p *corev1.Pod) {
	var ended, stay []corev1.Container
	for i, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if own := f.events(c.Name); len(own) > 0 {
			f.after(c.Name, "began after the success of ", ended, func(b corev1.Container, events []Event) bool {
				last := events[len(events)-1]
				return last.What == "exit" && last.Code == 0 && last.At < own[0].At
			})
			f.after(c.Name, "began after the start of ", stay, func(b corev1.Container, events []Event) bool {
				return started(b, events, own[0].At)
			})
		}
		switch {
		case isSidecar(c):
			// That one has started of which only a process is asked, it says itself too late.
			if c.StartupProbe != nil || c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
				stay = append(stay, c)
			}
		case i < len(p.Spec.InitContainers):
			ended = append(ended, c)
		}
	}
}

// after adds whether something holds of all containers that came before one.
func (f *facts) after(name, what string, before []corev1.Container, ok func(corev1.Container, []Event) bool) {
	if len(before) == 0 {
		return
	}
	all := true
	var names []string
	for _, b := range before {
		events := f.events(b.Name)
		all = all && len(events) > 0 && ok(b, events)
		names = append(names, b.Name)
	}
	f.add(name, what+strings.Join(names, ", "), "%s", yes(all))
}

// started says whether a sidecar had started at a time: with a startup probe it
// listens first, and its postStart hook has ended.
func started(c corev1.Container, events []Event, at int64) bool {
	before := func(what string) bool {
		return slices.ContainsFunc(events, func(e Event) bool { return e.What == what && e.At < at })
	}
	return before("start") && (c.StartupProbe == nil || before("stays")) && (c.Lifecycle == nil || c.Lifecycle.PostStart == nil || before("postStart ended"))
}

// ends is in which order containers of a pod with sidecars ended, when they were
// told to, and whether sidecars heard of it at once.
func (f *facts) ends(p *corev1.Pod) {
	if !slices.ContainsFunc(p.Spec.InitContainers, isSidecar) {
		return
	}
	type end struct {
		name string
		at   int64
	}
	var all []end
	var main int64 // when the last container had ended
	for i, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		init := i < len(p.Spec.InitContainers)
		if events := f.events(c.Name); len(events) > 0 && (!init || isSidecar(c)) {
			if last := events[len(events)-1]; last.What == "exit" {
				all = append(all, end{c.Name, last.At})
				if !init {
					main = max(main, last.At)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b end) int { return cmp.Compare(a.at, b.at) })
	var names []string
	for _, e := range all {
		names = append(names, e.name)
	}
	f.add("", "ended in the order", "%s", strings.Join(names, ", "))
	for _, c := range p.Spec.InitContainers {
		if !isSidecar(c) || c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
			continue
		}
		early := slices.ContainsFunc(f.events(c.Name), func(e Event) bool { return e.What == "preStop" && e.At < main })
		f.add(c.Name, "preStop hook before the end of the containers", "%s", yes(early))
	}
}

// loops says whether a container has done nothing but fail, at least three times.
func loops(events []Event) bool {
	exits := 0
	for i, e := range events {
		if i%2 == 0 && e.What != "start" || i%2 == 1 && (e.What != "exit" || e.Code == 0) {
			return false
		}
		exits += i % 2
	}
	return exits >= 3
}

// isPostStart says whether an event is of that hook, which runs beside its container:
// which of the two is first to say something is chance.
func isPostStart(e Event) bool { return strings.HasPrefix(e.What, "postStart") }

// postStart is how far that hook came.
func (f *facts) postStart(name string, events []Event) {
	said := ""
	for _, e := range events {
		if isPostStart(e) {
			said = e.What
		}
	}
	if said != "" {
		f.add(name, "postStart hook", "%s", said)
	}
}

// life is the sequence of a container's events; repeated ones are told once.
func life(events []Event) string {
	if loops(events) {
		return fmt.Sprintf("start, exit %d, again and again", events[1].Code)
	}
	var words []string
	for _, e := range events {
		w := e.What
		if isPostStart(e) {
			continue
		}
		if w == "exit" {
			w += " " + strconv.Itoa(e.Code)
		}
		if n := len(words); n > 0 && words[n-1] == w {
			continue
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

// long is where pauses are told apart: PID 1's third is 4 s, systemd's 10 s, a kubelet's 20 s.
const long = 8 * time.Second

// pauses tells how the pauses between runs grow, by their order of size: the exact
// ones are another in each run.
func (f *facts) pauses(name string, events []Event) {
	var ends, starts []int64
	for _, e := range events {
		switch e.What {
		case "start":
			starts = append(starts, e.At)
		case "exit":
			ends = append(ends, e.At)
		}
	}
	if len(starts) < 4 || len(ends) < 3 || loops(events) {
		return
	}
	second, fourth := starts[1]-ends[0], starts[3]-ends[2]
	size := "some seconds"
	if time.Duration(fourth) >= long {
		size = "10 s or more"
	}
	f.add(name, "pause before its fourth run", "%s", size)
	f.add(name, "which is longer than that before the second", "%s", yes(fourth > second))
}
