package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Bars reports with progress bars on a terminal. stop waits for the last
// drawing; call it before anything else is printed.
func Bars(w io.Writer) (r Reporter, stop func()) {
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithRefreshRate(150*time.Millisecond))
	return &bars{p: p}, p.Wait
}

type bars struct{ p *mpb.Progress }

func (b *bars) Start(verb, name string, total int64) Task {
	what := fmt.Sprintf("%-9s %s ", verb, name)
	t := &barTask{b: b, what: what, began: time.Now(), total: total}
	elapsed := decor.Elapsed(decor.ET_STYLE_GO, decor.WCSyncSpace)
	if total > 0 {
		t.bar = b.p.AddBar(total, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(what, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.CountersKibiByte(" % .1f / % .1f"), elapsed))
	} else {
		t.bar = b.p.New(0, mpb.SpinnerStyle(), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(what, decor.WCSyncSpaceR)), mpb.AppendDecorators(elapsed))
	}
	return t
}

type barTask struct {
	b     *bars
	bar   *mpb.Bar
	what  string
	began time.Time
	total int64
	once  sync.Once
}

func (t *barTask) Add(n int64) {
	if t.total > 0 {
		t.bar.IncrInt64(n)
	}
}

// end replaces the bar with a line that stays.
func (t *barTask) end(line string) {
	t.once.Do(func() {
		t.bar.Abort(true)
		fmt.Fprintf(t.b.p, "%s%s\n", t.what, line)
	})
}

func (t *barTask) Done(note string) {
	if note != "" {
		note = ", " + note
	}
	t.end(fmt.Sprintf("done, %s%s", time.Since(t.began).Round(10*time.Millisecond), note))
}
func (t *barTask) Cached()        { t.end("cached") }
func (t *barTask) Fail(err error) { t.end(fmt.Sprintf("failed: %v", err)) }
