package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"garboard.local/qemu/chaos/content"
	"garboard.local/qemu/powercut"
)

// stage is what was promised from a moment on.
type stage struct {
	moment int
	ledger *Ledger
}

// points judges further power cuts of a boot that is over, from the record of
// what it wrote: the disk that a cut at some other moment would have left is
// looked at from outside, with e2fsck and debugfs instead of another boot. Half
// of the moments are anywhere in the boot, half soon after a promise.
func (r *runner) points(ctx context.Context, round Round) (n int, losses []string, err error) {
	last := r.m.disk.Moment()
	if last == 0 {
		return 0, nil, nil
	}
	x := round.source()
	for n = range r.Points {
		moment := x.IntN(last + 1)
		if s := r.m.stages[x.IntN(len(r.m.stages))]; n%2 == 1 {
			moment = min(last, s.moment+x.IntN(60))
		}
		lost, err := r.point(ctx, round, moment)
		var found lossError
		if errors.As(err, &found) {
			lost, err = append(lost, string(found)), nil
		}
		if err != nil {
			return n, losses, fmt.Errorf("cut at request %d: %w", moment, err)
		}
		for _, l := range lost {
			losses = append(losses, fmt.Sprintf("cut at request %d of %d: %s", moment, last, l))
		}
	}
	return r.Points, losses, nil
}

// point judges one.
func (r *runner) point(ctx context.Context, round Round, moment int) ([]string, error) {
	x := round.source()
	ledger := promisedAt(r.m.stages, moment)
	if !ledger.partition {
		return nil, nil // the disk was still being made, and may be made again
	}
	dir, err := os.MkdirTemp("", "garboard-chaos-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	disk, survival, err := r.m.disk.Past(dir, moment, powercut.Pick(x), x)
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	lost, err := r.outside(ctx, ledger, disk.Path(), dir)
	for i := range lost {
		lost[i] += " (" + survival.String() + ")"
	}
	return lost, err
}

// promisedAt is what was promised at a moment. What was withdrawn later in the
// boot does not count: the guest says so before it acts, but we may have read it
// after that.
func promisedAt(stages []stage, moment int) *Ledger {
	at := 0
	for i, s := range stages {
		if s.moment <= moment {
			at = i
		}
	}
	l := stages[at].ledger.copy()
	for _, later := range stages[at+1:] {
		for ref := range l.images {
			if _, there := later.ledger.images[ref]; !there {
				delete(l.images, ref)
			}
		}
		for pod := range l.pods {
			if _, there := later.ledger.pods[pod]; !there {
				delete(l.pods, pod)
			}
		}
	}
	return l
}

// Where a node keeps things, relative to its data partition.
const (
	storeDir     = "/lib/containers/storage"
	manifestsDir = "/lib/garboard/etc/upper/kubernetes/manifests"
)

// outside looks at a disk after a power cut without booting it.
func (r *runner) outside(ctx context.Context, l *Ledger, disk, dir string) ([]string, error) {
	part := filepath.Join(dir, "part.raw")
	if err := judgeFileSystem(ctx, r.Command, disk, part, true); err != nil {
		return nil, err
	}
	for _, d := range []string{storeDir, manifestsDir} {
		// It makes a directory of the last name in dir. It fails on what is not there, which is for the ledger to judge.
		if _, _, err := run(r.Command(ctx, "debugfs", "-R", fmt.Sprintf("rdump %s %s", d, dir), part)); err != nil {
			return nil, err
		}
	}
	l.Boot("outside")
	images, err := content.Store(filepath.Join(dir, filepath.Base(storeDir)))
	if err != nil {
		l.noteGuest("damaged", []string{"-", "-", err.Error()})
	}
	for _, i := range images {
		for _, name := range i.Names {
			if number(name) < 0 {
				continue
			}
			files, err := content.Read(i.Layers...)
			if err != nil {
				l.noteGuest("damaged", []string{name, i.ID, err.Error()})
				continue
			}
			l.noteGuest("image", []string{name, i.ID, content.Sum(files)})
		}
	}
	l.noteGuest("checked", nil)
	for pod, ref := range l.pods {
		b, err := os.ReadFile(filepath.Join(dir, filepath.Base(manifestsDir), pod+".yaml"))
		if err != nil || !strings.Contains(string(b), fmt.Sprintf("image: %q", ref)) || !strings.HasSuffix(string(b), "}\n") {
			l.lose("pod %s: its manifest is gone or damaged: %v %q", pod, err, b)
		}
	}
	return l.losses, nil
}
