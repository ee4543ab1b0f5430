package qemu

import (
	"strings"
	"testing"
	"time"
)

const benchConsole = `[    0.000000] Linux version 6.12.0
[    2.400000] garboard: phase mounts (1/9): done, 12ms
[    2.500000] garboard: service crio: started, pid 60
[    3.900000] garboard: service crio: ready, 1.4s
[    4.000000] garboard: service kubelet: started, pid 90
[    5.000000] garboard: service kubelet: started, pid 91
[   11.400000] default/hello-node/hello: hello: hello from a pod
[   11.500000] default/stats-node/stats: uptime 11.23
[   26.600000] default/stats-node/stats: stats: MemAvailable 3642880 kB, processes 9
`

func benchLines(console string) []Line {
	var lines []Line
	for l := range strings.Lines(console) {
		lines = append(lines, ParseLine(strings.TrimSuffix(l, "\n"), time.Time{}))
	}
	return lines
}

func TestParseSample(t *testing.T) {
	got, err := ParseSample(benchLines(benchConsole))
	want := Sample{Init: 2.4, Runtime: 3.9, Kubelet: 4.0, Pod: 11.23, MemAvailableKiB: 3642880, Processes: 9}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	without := strings.Replace(benchConsole, "uptime 11.23", "hello", 1)
	if got, err := ParseSample(benchLines(without)); err != nil || got.Pod != 11.4 {
		t.Errorf("without an uptime line: got %+v, %v, want the first pod line's stamp", got, err)
	}
	for _, part := range []string{"garboard: service crio: ready", "garboard: service kubelet: started", "default/", "garboard: "} {
		if _, err := ParseSample(benchLines(strings.ReplaceAll(benchConsole, part, "x"))); err == nil {
			t.Errorf("a console without %q was measured", part)
		}
	}
}

func TestRow(t *testing.T) {
	r := BenchResult{Samples: []Sample{
		{Init: 2.4, Runtime: 3, Kubelet: 4, Pod: 12, MemAvailableKiB: 3 << 20, Processes: 9},
		{Init: 2.2, Runtime: 3.5, Kubelet: 4, Pod: 11, MemAvailableKiB: 3<<20 + 2048, Processes: 9},
		{Init: 2.9, Runtime: 3.1, Kubelet: 5, Pod: 13, MemAvailableKiB: 3<<20 + 1024, Processes: 11},
	}}
	want := "| node | 3 | 2.4 (2.2-2.9) | 3.1 (3.0-3.5) | 4.0 (4.0-5.0) | 12.0 (11.0-13.0) | 3073 (3072-3074) | 9 (9-11) |"
	if got := r.Row("node"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := (BenchResult{Samples: []Sample{{Init: 1, Runtime: 2, Kubelet: 3, Pod: 4}, {Init: 2, Runtime: 2, Kubelet: 3, Pod: 4}}}).Row("x"); !strings.HasSuffix(got, "| not measured | not measured |") || !strings.Contains(got, "| 1.5 (1.0-2.0) |") {
		t.Errorf("got %s", got)
	}
	for line := range strings.Lines(BenchHeader) {
		if strings.Count(line, "|") != strings.Count(want, "|") {
			t.Errorf("header line %q does not fit the rows", line)
		}
	}
}
