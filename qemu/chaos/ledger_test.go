package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"garboard.local/qemu"
)

func sumOf(ref string) string {
	if number(ref) < 0 {
		return ""
	}
	return "sum-" + ref
}

func image(i int) string { return fmt.Sprintf("%s:%d", guestRepository, i) }

// hear has the ledger read console lines; "N" stands for the nonce.
func hear(l *Ledger, lines ...string) {
	for _, s := range lines {
		l.Note(qemu.ParseLine("[    1.000000] "+strings.Replace(s, "chaos: N ", "chaos: "+l.nonce+" ", 1), time.Time{}))
	}
}

func found(i int, sum string) string {
	return fmt.Sprintf("chaos: N image %s id%d %s 9", image(i), i, sum)
}

func load(l *Ledger, i int, word, sum string) string {
	return fmt.Sprintf("default/chaosload-%d-garboard/load: chaosload: %s %s %s 9", i, l.nonce, word, sum)
}

func TestLedger(t *testing.T) {
	whole := sumOf(image(0))
	all := []string{"chaos: N begin", found(0, whole), found(1, sumOf(image(1))), "chaos: N checked 2"}
	for _, tt := range []struct {
		name   string
		second func(l *Ledger) []string
		want   []string // parts of the losses, in order
	}{
		{"all is there", func(l *Ledger) []string { return append(slices.Clone(all), load(l, 0, "whole", whole)) }, nil},
		{"one gone", func(l *Ledger) []string {
			return []string{found(0, whole), "chaos: N checked 1", load(l, 0, "whole", whole)}
		}, []string{":1 had been reported as pulled and is gone"}},
		{"all gone", func(l *Ledger) []string { return []string{"chaos: N checked 0", load(l, 0, "whole", whole)} },
			[]string{":0 had been reported", ":1 had been reported"}},
		{"truncated", func(l *Ledger) []string {
			return []string{found(0, "other"), found(1, sumOf(image(1))), "chaos: N checked 2", load(l, 0, "whole", whole)}
		}, []string{":0 is listed and not what was pushed: sum other"}},
		{"unreadable", func(l *Ledger) []string {
			return []string{`chaos: N damaged ` + image(0) + ` id0 "read: I/O error"`, found(1, sumOf(image(1))), "chaos: N checked 2", load(l, 0, "whole", whole)}
		}, []string{"I/O error"}},
		{"records broken", func(l *Ledger) []string {
			return []string{`chaos: N damaged - - "images.json: unexpected end"`, "chaos: N checked 0", load(l, 0, "whole", whole)}
		}, []string{"unexpected end", ":0 had been", ":1 had been"}},
		{"unpromised and damaged", func(l *Ledger) []string {
			return []string{found(0, whole), found(1, sumOf(image(1))), found(2, "half"), "chaos: N checked 3", load(l, 0, "whole", whole)}
		}, []string{":2 is listed and not what was pushed: sum half"}},
		{"unpromised and whole", func(l *Ledger) []string {
			return []string{found(0, whole), found(1, sumOf(image(1))), found(2, sumOf(image(2))), "chaos: N checked 3", load(l, 0, "whole", whole)}
		}, nil},
		{"another boot's words", func(l *Ledger) []string {
			return append(slices.Clone(all), "chaos: M image "+image(0)+" id bad 9", load(&Ledger{nonce: "M"}, 0, "whole", whole))
		}, []string{"pod chaosload-0 (" + image(0) + ") does not run again"}},
		{"pod with other files", func(l *Ledger) []string { return append(slices.Clone(all), load(l, 0, "whole", "other")) },
			[]string{"sees files that are not what was pushed: other"}},
		{"pod that cannot read", func(l *Ledger) []string { return append(slices.Clone(all), load(l, 0, "broken", `"x"`)) },
			[]string{"sees files that are not what was pushed: chaosload: two broken"}},
		{"ended by a shutdown", func(l *Ledger) []string {
			return append(slices.Clone(all), load(l, 0, "whole", whole), "garboard: shutdown requested by the power button", `chaos: N ended "canceled"`)
		}, nil},
		{"ended by nobody", func(l *Ledger) []string {
			return append(slices.Clone(all), load(l, 0, "whole", whole), `chaos: N ended "canceled"`)
		}, []string{"told to end, though nobody had asked"}},
		{"in memory", func(l *Ledger) []string {
			return append([]string{"garboard: data: no data partition: /var is in memory, at most 9 MiB, and lost at the end"}, append(slices.Clone(all), load(l, 0, "whole", whole))...)
		}, []string{"no data partition"}},
		{"made anew", func(l *Ledger) []string {
			return append([]string{"garboard: data: making an ext4 file system of 9 MiB on /dev/vda1, at most 2m0s"}, append(slices.Clone(all), load(l, 0, "whole", whole))...)
		}, []string{"making an ext4"}},
		{"replayed", func(l *Ledger) []string {
			return append([]string{"garboard: data: e2fsck corrected /dev/vda1: garboard: recovering journal"}, append(slices.Clone(all), load(l, 0, "whole", whole))...)
		}, nil},
		{"not after a kill", func(l *Ledger) []string {
			return append(slices.Clone(all), load(l, 0, "whole", whole), "chaos: N notrunning chaosload-0")
		}, []string{"does not run again after a kill"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLedger(sumOf)
			l.Boot("one")
			hear(l, "garboard: data: /dev/vda1 on /var, 9 of 9 MiB free", "chaos: N begin", "chaos: N checked 0", "chaos: N pulling "+image(0),
				"chaos: N pulled "+image(0)+" id0", "chaos: N pod chaosload-0 "+image(0), "chaos: N pulling "+image(1), "chaos: N pulled "+image(1)+" id1",
				"chaos: N pulling "+image(2))
			if images, pods := l.Promised(); images != 2 || pods != 1 || l.next != 2 || len(l.losses) > 0 {
				t.Fatalf("after the first boot: %+v", l)
			}
			l.Boot("two")
			hear(l, tt.second(l)...)
			l.judgePods()
			if len(l.losses) != len(tt.want) {
				t.Fatalf("losses %q, want %q", l.losses, tt.want)
			}
			for i, w := range tt.want {
				if !strings.Contains(l.losses[i], w) {
					t.Errorf("loss %q, want %q", l.losses[i], w)
				}
			}
			// What is lost is lost once: the same again is no new loss.
			l.Boot("three")
			for i, line := range []string{found(0, whole), found(1, sumOf(image(1)))} {
				if _, promised := l.images[image(i)]; promised {
					hear(l, line)
				}
			}
			hear(l, "chaos: N checked 2")
			if len(l.losses) > 0 {
				t.Errorf("again: %q", l.losses)
			}
		})
	}
}

// What the node is told to remove may be gone or there, but not half there.
func TestLedgerRemoval(t *testing.T) {
	l := NewLedger(sumOf)
	l.Boot("one")
	hear(l, "chaos: N pulled "+image(0)+" id0", "chaos: N removing "+image(0), "chaos: N pod chaosload-0 "+image(0), "chaos: N unpod chaosload-0")
	l.Boot("two")
	hear(l, "chaos: N checked 0")
	l.judgePods()
	if len(l.losses) > 0 {
		t.Errorf("losses %q", l.losses)
	}
	hear(l, found(0, "half"), "chaos: N checked 1")
	if len(l.losses) != 1 {
		t.Errorf("losses %q", l.losses)
	}
}

func TestFields(t *testing.T) {
	for in, want := range map[string][]string{
		"":                     nil,
		"a  b":                 {"a", "b"},
		`a "b c" d`:            {"a", "b c", "d"},
		`x "it \"broke\"\n" y`: {"x", "it \"broke\"\n", "y"},
		`a "open`:              {"a", `"open`},
	} {
		if got := fields(in); !slices.Equal(got, want) {
			t.Errorf("fields(%q) = %q, want %q", in, got, want)
		}
	}
}

// The console is others' bytes: whatever it holds is taken or passed over.
func FuzzNote(f *testing.F) {
	for _, s := range []string{"chaos: N pulled " + image(1) + " id", "chaos: N image", `chaos: N damaged - - "x`, "garboard: data: /dev/vda1 on /var, 1", "default/chaosload-1-g/load: chaosload: N whole x 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l := NewLedger(sumOf)
		l.Boot("N")
		hear(l, strings.Split(s, "\n")...)
		hear(l, "chaos: N checked 0")
		l.judgePods()
		if images, pods := l.Promised(); images+pods > 0 && len(l.losses) == 0 {
			t.Errorf("%q: %d images and %d pods are promised after a boot that showed none", s, images, pods)
		}
	})
}
