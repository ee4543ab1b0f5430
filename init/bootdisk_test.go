package boot

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"garboard.local/init/data"
)

// efivars mounts by writing the variable into the directory.
type efivars struct {
	t       *testing.T
	content []byte
	log     []string
	fail    error
}

func (e *efivars) Mount(_, target, fstype string, flags uintptr, _ string) error {
	e.log = append(e.log, "mount "+fstype)
	if flags&unix.MS_RDONLY == 0 {
		e.t.Error("the firmware's variables can be written to")
	}
	if e.fail != nil || e.content == nil {
		return e.fail
	}
	return os.WriteFile(filepath.Join(target, data.LoaderVariable), e.content, 0o600)
}

func (e *efivars) Unmount(string, int) error {
	e.log = append(e.log, "unmount")
	return nil
}

func TestLoaderPartition(t *testing.T) {
	const guid = "5C2D0E3A-0B0C-4F5D-9E9F-1A2B3C4D5E6F"
	variable := binary.LittleEndian.AppendUint32(nil, 6)
	for _, u := range utf16.Encode([]rune(strings.ToLower(guid) + "\x00")) {
		variable = binary.LittleEndian.AppendUint16(variable, u)
	}
	for _, tt := range []struct {
		name    string
		content []byte
		fail    error
		want    string
		err     string
		log     string
	}{
		{"as systemd-stub leaves it", variable, nil, guid, "", "mount efivarfs, unmount"},
		{"there is none", nil, nil, "", "", "mount efivarfs, unmount"},
		{"something else", variable[:20], nil, "", "20 bytes", "mount efivarfs, unmount"},
		{"no variables", nil, unix.ENODEV, "", "mount the variables", "mount efivarfs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &efivars{t: t, content: tt.content, fail: tt.fail}
			got, err := loaderPartition(e, t.TempDir())
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
			if log := strings.Join(e.log, ", "); log != tt.log {
				t.Errorf("did %q, want %q", log, tt.log)
			}
		})
	}
}

func TestBootPartitionOfTheCommandLine(t *testing.T) {
	const guid = "5C2D0E3A-0B0C-4F5D-9E9F-1A2B3C4D5E6F"
	for param, want := range map[string]string{"PARTUUID=" + strings.ToLower(guid): guid, "none": ""} {
		n := &node{cmdline: map[string]string{bootParam: param}} // without sys: the firmware is not asked
		if got, err := n.bootPartition(); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", param, got, err, want)
		}
	}
	for _, bad := range []string{"/dev/vda1", "PARTUUID=", "PARTUUID=x", "PARTUUID={" + guid + "}", "PARTUUID=00000000-0000-0000-0000-000000000000"} {
		n := &node{cmdline: map[string]string{bootParam: bad}}
		if got, err := n.bootPartition(); err == nil || !strings.Contains(err.Error(), "want PARTUUID=GUID") {
			t.Errorf("%s: %q, %v", bad, got, err)
		}
	}
}
