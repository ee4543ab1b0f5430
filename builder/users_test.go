package builder

import (
	"io"
	"strings"
	"testing"

	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
)

func TestAddUsers(t *testing.T) {
	const passwd, group = "root:x:0:0:root:/root:/nonexistent\nnobody:x:65534:65533:::\n", "root:x:0:\nadm:x:4:\n"
	agent := recipe.User{Name: "agent", UID: 900, Reason: "r"}
	for _, tt := range []struct {
		name          string
		passwd, group string // "" = no such file
		users         []recipe.User
		wantPasswd    string
		wantGroup     string
		err           string
	}{
		{"nobody asks", passwd, group, nil, passwd, group, ""},
		{"nobody asks, no files", "", "", nil, "", "", ""},
		{"one", passwd, group, []recipe.User{agent},
			passwd + "agent:x:900:900:agent:/nonexistent:/nonexistent\n", group + "agent:x:900:\n", ""},
		{"name of a user", passwd, group, []recipe.User{{Name: "nobody", UID: 5}}, "", "", "has nobody (65534) already"},
		{"number of a user", "a:x:900:900:::\n", group, []recipe.User{agent}, "", "", "has a (900) already"},
		{"name of a group", passwd, group, []recipe.User{{Name: "adm", UID: 5}}, "", "", "has adm (4) already"},
		{"number of a group", passwd, group, []recipe.User{{Name: "b", UID: 4}}, "", "", "has adm (4) already"},
		{"no passwd", "", group, []recipe.User{agent}, "", "", "/etc/passwd, which the image does not have"},
		{"no group", passwd, "", []recipe.User{agent}, "", "", "/etc/group, which the image does not have"},
		{"passwd that is none", "root\n", group, []recipe.User{agent}, "", "", "line 1"},
		{"a uid that is none", "root:x:zero:0:::\n", group, []recipe.User{agent}, "", "", "line 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &build{tree: rootfs.New(), recipe: &recipe.Recipe{Name: "n", File: "n.yaml", Users: tt.users}}
			for file, text := range map[string]string{passwdFile: tt.passwd, groupFile: tt.group} {
				if text == "" {
					continue
				}
				if err := b.tree.Add(rootfs.FromBytes(file, 0o644, []byte(text), "overlay base", "who there is")); err != nil {
					t.Fatal(err)
				}
			}
			err := b.addUsers(nil)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for file, want := range map[string]string{passwdFile: tt.wantPasswd, groupFile: tt.wantGroup} {
				if got := content(t, b.tree.Get(file)); got != want {
					t.Errorf("%s:\n%swant\n%s", file, got, want)
				}
			}
			if len(tt.users) == 0 {
				return
			}
			if a, err := b.owner("agent"); err != nil || a != (account{900, 900}) {
				t.Errorf("agent: %v %v", a, err)
			}
			if a, err := b.owner("nobody"); err != nil || a != (account{65534, 65533}) {
				t.Errorf("nobody: %v %v", a, err)
			}
			if _, err := b.owner("somebody"); err == nil || !strings.Contains(err.Error(), "recipe's users") {
				t.Errorf("somebody: %v", err)
			}
		})
	}
}

func content(t *testing.T, e *rootfs.Entry) string {
	t.Helper()
	if e == nil {
		return ""
	}
	r, err := e.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
