package qemu

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Sample is one boot, measured. Times are seconds of the guest's uptime.
type Sample struct {
	Init    float64 // PID 1's first line
	Runtime float64 // the container runtime answers
	Kubelet float64 // the kubelet's process is started
	// Pod is the first code in a pod's own process: the /proc/uptime that it
	// prints as "uptime S", or the kernel's stamp of the first line of any pod
	// where that is less or there is no such line (an upper bound then).
	Pod float64
	// Fifteen seconds later, if a pod runs `tester stats`; else 0.
	MemAvailableKiB int
	Processes       int // user space; kernel threads do not count
}

var (
	runtimeReady   = regexp.MustCompile(`^service (?:crio|containerd): ready\b`)
	kubeletStarted = regexp.MustCompile(`^service kubelet: started\b`)
	podUptime      = regexp.MustCompile(`(?:^|[ :])uptime (\d{1,9}(?:\.\d{1,9})?)(?: ?s)?$`)
	podStats       = regexp.MustCompile(`^stats: MemAvailable (\d{1,12}) kB, processes (\d{1,6})$`)
)

// ParseSample reads a boot's console. It is an error if one of the times is
// missing; the figures of `tester stats` may be.
func ParseSample(lines []Line) (Sample, error) {
	s := Sample{Init: -1, Runtime: -1, Kubelet: -1, Pod: -1}
	first := func(v *float64, at float64) {
		if *v < 0 {
			*v = at
		}
	}
	for _, l := range lines {
		if own, ok := l.Own(); ok && l.Stamp >= 0 {
			first(&s.Init, l.Stamp)
			if runtimeReady.MatchString(own) {
				first(&s.Runtime, l.Stamp)
			}
			if kubeletStarted.MatchString(own) {
				first(&s.Kubelet, l.Stamp)
			}
		}
		p, ok := l.Pod()
		if !ok {
			continue
		}
		at := l.Stamp
		if m := podUptime.FindStringSubmatch(p.Text); m != nil {
			at, _ = strconv.ParseFloat(m[1], 64) // digits, by the expression
		}
		if at >= 0 && (s.Pod < 0 || at < s.Pod) { // lines of two pods may cross
			s.Pod = at
		}
		if m := podStats.FindStringSubmatch(p.Text); m != nil && s.Processes == 0 {
			s.MemAvailableKiB, _ = strconv.Atoi(m[1]) // digits, by the expression
			s.Processes, _ = strconv.Atoi(m[2])
		}
	}
	for _, v := range []struct {
		name string
		at   float64
	}{{"PID 1's first line", s.Init}, {"the runtime's readiness", s.Runtime}, {"the kubelet's start", s.Kubelet}, {"a pod's line", s.Pod}} {
		if v.at < 0 {
			return s, fmt.Errorf("the console does not show %s", v.name)
		}
	}
	return s, nil
}

// BenchResult is several boots of one machine.
type BenchResult struct {
	Samples []Sample
	Faults  int    // boots repeated for the emulator's known fault
	QEMU    string // version, origin and accelerator
}

// Ceilings of one measured boot.
const (
	benchPodCeiling   = 5 * time.Minute
	benchStatsCeiling = time.Minute // after the pod; its own wait is 15 s
)

// Bench boots the machine n times, one after the other. With stats it also
// waits for a pod's `tester stats` line. say is told about each boot.
func Bench(ctx context.Context, m Machine, n int, stats bool, say func(format string, args ...any)) (BenchResult, error) {
	var r BenchResult
	for i := range n {
		faults, err := Repeat(2, say, func() error {
			s, qemu, err := benchOnce(ctx, m, stats)
			if err == nil {
				r.Samples, r.QEMU = append(r.Samples, s), qemu
				say("boot %d/%d: PID 1 %.1f s, runtime %.1f s, kubelet %.1f s, pod %.1f s", i+1, n, s.Init, s.Runtime, s.Kubelet, s.Pod)
			}
			return err
		})
		r.Faults += faults
		if err != nil {
			return r, fmt.Errorf("boot %d of %d: %w", i+1, n, err)
		}
	}
	return r, nil
}

func benchOnce(ctx context.Context, m Machine, stats bool) (Sample, string, error) {
	vm, err := m.Start(ctx)
	if err != nil {
		return Sample{}, "", err
	}
	defer vm.Close()
	wait := func(re *regexp.Regexp, d time.Duration) error {
		ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("not within %s", d))
		defer cancel()
		_, err := vm.Expect(ctx, re)
		return err
	}
	if err := wait(podPrefix, benchPodCeiling); err != nil {
		return Sample{}, "", err
	}
	if stats {
		if err := wait(regexp.MustCompile(`: stats: MemAvailable `), benchStatsCeiling); err != nil {
			return Sample{}, "", err
		}
	}
	s, err := ParseSample(vm.Console.Lines())
	if err != nil {
		err = vm.Console.Failure(err, "the boot cannot be measured")
	}
	return s, fmt.Sprintf("QEMU %s, %s, accelerator %s", m.Tool.Version, m.Tool.Origin, vm.Accel), err
}

// BenchHeader is the table that Row's rows belong to.
const BenchHeader = `| image | boots | PID 1's first line (s) | runtime ready (s) | kubelet started (s) | first pod process (s) | MemAvailable 15 s later (MiB) | processes 15 s later |
|---|---|---|---|---|---|---|---|`

// Row is the result as a row of a Markdown table: medians (min-max).
func (r BenchResult) Row(name string) string {
	cell := func(format string, value func(Sample) float64) string {
		var v []float64
		for _, s := range r.Samples {
			v = append(v, value(s))
		}
		if len(v) == 0 || slices.Max(v) == 0 {
			return "not measured"
		}
		return fmt.Sprintf(format+" ("+format+"-"+format+")", median(v), slices.Min(v), slices.Max(v))
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s | %s |", name, len(r.Samples),
		cell("%.1f", func(s Sample) float64 { return s.Init }),
		cell("%.1f", func(s Sample) float64 { return s.Runtime }),
		cell("%.1f", func(s Sample) float64 { return s.Kubelet }),
		cell("%.1f", func(s Sample) float64 { return s.Pod }),
		cell("%.0f", func(s Sample) float64 { return float64(s.MemAvailableKiB) / 1024 }),
		cell("%.0f", func(s Sample) float64 { return float64(s.Processes) }))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if mid := len(v) / 2; len(v)%2 == 0 {
		return (v[mid-1] + v[mid]) / 2
	} else {
		return v[mid]
	}
}
