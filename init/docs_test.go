package boot

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/logs"
	"garboard.local/init/mounts"
	"garboard.local/init/rootfs"
	"garboard.local/init/shutdown"
)

func initPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/init.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// flags are the names of mount flags, as mount(8) has them.
var flags = []struct {
	bit  uintptr
	name string
}{
	{unix.MS_NOSUID, "nosuid"}, {unix.MS_NODEV, "nodev"}, {unix.MS_NOEXEC, "noexec"}, {unix.MS_RDONLY, "ro"},
	{unix.MS_SHARED, "shared"}, {unix.MS_REC, "recursive"},
}

func mountRow(t *testing.T, m mounts.Mount) string {
	var names []string
	left := m.Flags
	for _, f := range flags {
		if m.Flags&f.bit != 0 {
			names = append(names, f.name)
			left &^= f.bit
		}
	}
	if left != 0 {
		t.Errorf("%s: flags %x have no name", m, left)
	}
	optional, kind, data := "", m.Type, m.Data
	if m.Optional {
		optional = "optional"
	}
	if data != "" {
		data = "`" + data + "`"
	}
	return strings.Join(strings.Fields(fmt.Sprintf("| `%s` | %s | %s | %s | %s |", m.Target, kind, strings.Join(names, " "), data, optional)), " ")
}

// The table of mounts in docs/init.md is the list that PID 1 mounts.
func TestMountsInDocs(t *testing.T) {
	_, rest, _ := strings.Cut(initPage(t), "\n## Mounts\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	var got []string
	for line := range strings.SplitSeq(section, "\n") {
		if strings.HasPrefix(line, "| `/") {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
	}
	var want []string
	for _, m := range slices.Concat(mounts.Early(), mounts.Base(), []mounts.Mount{mounts.Memory()}, mounts.EtcOverlay(etcLocal), mounts.Later()) {
		want = append(want, mountRow(t, m))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/init.md has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The limits in docs/init.md are the node's.
func TestLimitsInDocs(t *testing.T) {
	doc := initPage(t)
	l := shutdown.DefaultLimits()
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		d := v.Field(i).Interface().(time.Duration)
		text := fmt.Sprintf("%d s", int(d.Seconds()))
		if d >= time.Minute && d%time.Minute == 0 {
			text = fmt.Sprintf("%d min", int(d.Minutes()))
		}
		if row := fmt.Sprintf("| `%s` | %s |", v.Type().Field(i).Name, text); !strings.Contains(doc, row) {
			t.Errorf("docs/init.md has no row %q", row)
		}
	}
	for _, want := range []string{
		fmt.Sprintf("one may take %d s", int(umountLimit.Seconds())), fmt.Sprintf("(waited for at most %d s)", int(rootfs.DiskLimit.Seconds())),
		fmt.Sprintf("%d s with the grace of the standard image (30 s)", int(l.Total(30*time.Second).Seconds())),
		fmt.Sprintf("at %d MiB", logs.FileCap>>20), fmt.Sprintf("The last %d KiB of each log", logs.Ring>>10),
		fmt.Sprintf("tries again every %d s", int(logs.Retry.Seconds())), fmt.Sprintf("Files are %04o, group %d", logs.Mode, logs.Group),
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("docs/init.md does not say %q", want)
		}
	}
}
