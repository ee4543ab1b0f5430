//go:build ignore

// This program writes default.json: the profile that cri-o calls RuntimeDefault,
// printed by cri-o's own code, since cri-o changes the list it gets from
// go.podman.io/common before it uses it. Its argument is the component's directory.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/cri-o/cri-o"

const program = `package main

import (
	"encoding/json"
	"os"

	"github.com/cri-o/cri-o/internal/config/seccomp"
)

func main() {
	if err := json.NewEncoder(os.Stdout).Encode(seccomp.DefaultProfile()); err != nil {
		panic(err)
	}
}
`

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run mkdefault.go DIRECTORY-OF-THE-COMPONENT")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var versions []string
	var src string
	for _, m := range []string{module, "go.podman.io/common"} {
		var found struct{ Version, Dir string }
		b, err := goCommand(dir, "list", "-m", "-json", m)
		if err == nil {
			err = json.Unmarshal(b, &found)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
		versions = append(versions, m+" "+found.Version)
		if m == module {
			src = found.Dir
		}
	}
	work, err := os.MkdirTemp("", "mkdefault")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := prepare(work, dir, src); err != nil {
		return err
	}
	profile, err := goCommand(work, "run", "-mod=mod", "-tags", "seccomp,containers_image_openpgp,exclude_graphdriver_btrfs", module+"/cmd/profile")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, fmt.Appendf(nil, `{"source": %q, "profile": %s}`, strings.Join(versions, ", "), profile), "", " "); err != nil {
		return err
	}
	return os.WriteFile("default.json", append(out.Bytes(), '\n'), 0o644)
}

// prepare makes a module of the component's with the program in cri-o's tree and
// what makes its seccomp package compile without cgo.
func prepare(work, dir, src string) error {
	own := filepath.Join(work, "src")
	if err := os.CopyFS(own, os.DirFS(src)); err != nil {
		return err
	}
	for _, f := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, f), b, 0o644); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(own, "internal/config/seccomp/*.go"))
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.Chmod(f, 0o644); err != nil {
			return err
		}
		b = bytes.Replace(b, []byte("linux && cgo"), []byte("linux"), 1)
		if err := os.WriteFile(f, b, 0o644); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(own, "cmd/profile"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "cmd/profile/main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	_, err = goCommand(work, "mod", "edit", "-replace", module+"=./src", "-replace", "github.com/seccomp/libseccomp-golang="+filepath.Join(dir, "seccomp"))
	return err
}

func goCommand(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Output()
}
