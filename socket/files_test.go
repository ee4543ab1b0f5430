package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestModesWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o22, 0o77, 0o777} {
		dir := shortDir(t)
		if umask == 0o777 && os.Getuid() != 0 {
			continue // only root can enter the private directory then
		}
		old := syscall.Umask(umask)
		s := &Server{Handler: &called{}}
		errs := errors.Join(s.Listen(Root, dir+"/r"), s.Listen(Restart, dir+"/new/s"))
		syscall.Umask(old)
		if errs != nil {
			t.Fatal(errs)
		}
		for name, want := range map[string]fs.FileMode{
			"r":     fs.ModeSocket | 0o600,
			"new":   fs.ModeDir | 0o755,
			"new/s": fs.ModeSocket | 0o666,
		} {
			st, err := os.Lstat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if st.Mode() != want {
				t.Errorf("umask %03o: %s is %v, want %v", umask, name, st.Mode(), want)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 2 {
			t.Errorf("something was left behind: %v", entries)
		}
		s.Close()
	}
}

func TestListenReplacesAStaleSocket(t *testing.T) {
	path := shortDir(t) + "/s"
	stale, err := Listen(path, RootMode)
	if err != nil {
		t.Fatal(err)
	}
	stale.UnixListener.Close() // as when the process died: the file stays
	n := &called{}
	s := &Server{Handler: n}
	defer s.Close()
	if err := s.Listen(Root, path); err != nil {
		t.Fatal(err)
	}
	stale.Close() // not its file any more
	say(t, path, byte(Reboot))
	if n.String() != "reboot root" {
		t.Errorf("got %s", n)
	}
}

func TestListenRefusesWhatIsNotASocket(t *testing.T) {
	dir := shortDir(t)
	file := dir + "/file"
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir, file + "/below", dir + "/" + strings.Repeat("x", 120)} {
		if l, err := Listen(path, RootMode); err == nil {
			l.Close()
			t.Errorf("%s: no error", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error does not name it: %v", path, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file is now %q, %v", b, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestGraceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new/grace")
	if _, err := ReadGrace(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	for _, tt := range []struct {
		write time.Duration
		want  string // content; "" is an error
	}{
		{30 * time.Second, "30000\n"},
		{0, "0\n"},
		{1500 * time.Microsecond, "2\n"},
		{MaxGrace, "86400000\n"},
		{MaxGrace + 1, ""},
		{-1, ""},
	} {
		err := WriteGrace(path, tt.write)
		if tt.want == "" {
			if err == nil {
				t.Errorf("%v: no error", tt.write)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(path); string(b) != tt.want {
			t.Errorf("%v: wrote %q, want %q", tt.write, b, tt.want)
		}
		if got, err := ReadGrace(path); err != nil || got < tt.write || got >= tt.write+time.Millisecond {
			t.Errorf("%v: read %v, %v", tt.write, got, err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestGraceFileThatIsWrong(t *testing.T) {
	for _, content := range []string{"", "\n", "-1\n", "+1\n", " 1\n", "1 \n", "1\n\n", "1\r\n", "30s\n", "1.5\n", "0x1e\n",
		"86400001\n", "9223372036854775808\n", strings.Repeat("0", 40), strings.Repeat("9", 1<<20), "\x00"} {
		path := filepath.Join(t.TempDir(), "grace")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if len(content) > 50 {
			content = content[:50] + "..."
		}
		if got, err := ReadGrace(path); err == nil && !strings.HasPrefix(content, "0000") {
			t.Errorf("%q: read as %v", content, got)
		} else if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: the error does not name the file: %v", content, err)
		}
	}
}

// Whatever lies in the file's place, PID 1 does not hang on it.
func TestGraceFileThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, dir} {
		if got, err := ReadGrace(path); err == nil {
			t.Errorf("%s: read as %v", path, got)
		}
	}
}

// A reader sees the old figure or the new one, never half of it.
func TestGraceFileIsReplacedInOneStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grace")
	if err := WriteGrace(path, time.Second); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		for i := 0; i < 500; i++ {
			if err := WriteGrace(path, time.Duration(1+i%2*9999)*time.Second); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if got, err := ReadGrace(path); err != nil || got != time.Second && got != 10000*time.Second {
			t.Fatalf("read %v, %v", got, err)
		}
	}
}

func TestLimiter(t *testing.T) {
	l := limiter{burst: 3, interval: time.Second}
	now := time.Unix(1000, 0)
	line := func(after time.Duration) string {
		now = now.Add(after)
		ok, missed := l.allow(now)
		return fmt.Sprint(ok, missed)
	}
	for i, tt := range []struct {
		after time.Duration
		want  string
	}{
		{0, "true 0"}, {0, "true 0"}, {0, "true 0"}, {0, "false 0"}, {0, "false 0"},
		{time.Second, "true 2"}, {0, "false 0"},
		{time.Hour, "true 1"}, {0, "true 0"}, {0, "true 0"}, {0, "false 0"},
		{-time.Hour, "false 0"}, // a clock that was set back
	} {
		if got := line(tt.after); got != tt.want {
			t.Errorf("line %d: %s, want %s", i, got, tt.want)
		}
	}
}
