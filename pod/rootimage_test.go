package pod

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"garboard.local/init/table"
)

// inRecipe finds one image, called registry.example/a:1.
func inRecipe(config string, files map[string]string) func(string) (*Image, error) {
	fsys := fstest.MapFS{}
	for name, text := range files {
		f := &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		if strings.Contains(name, "bin/") {
			f.Mode = 0o755
		}
		fsys[name] = f
	}
	return func(name string) (*Image, error) {
		if name == "registry.example/many:1" {
			return &Image{Config: []byte(`{"config": {"Entrypoint": ["/x"]}}`), Layers: slices.Repeat([]string{"/usr/lib/garboard/images/overlay/l/ABCDEFGHIJKLMNOPQRSTUVWXYZ"}, 101), Files: fsys}, nil
		}
		if name != "registry.example/a:1" {
			return nil, fmt.Errorf("%s is no image of the recipe", name)
		}
		return &Image{Config: []byte(`{"config": ` + config + `}`), Layers: []string{"/images/top", "/images/below"}, Files: fsys}, nil
	}
}

const rootImage = "    image: registry.example/a:1\n"

// silentPod is podOf without a command, which the image gives.
func silentPod(spec, container string) string {
	return strings.Replace(podOf(spec, container), "    command: [/c]\n", "", 1)
}

// What a service of PID 1 is by its image, as under a container runtime, and by its
// manifest where that says something.
func TestRootImage(t *testing.T) {
	files := map[string]string{"etc/passwd": passwd, "etc/group": group, "usr/local/bin/app": "", "usr/bin/app": "", "usr/bin/other": "", "usr/bin/plain": "", "opt/text": ""}
	const config = `{"User": "app", "WorkingDir": "/srv", "Entrypoint": ["app", "-v"], "Cmd": ["serve"], "Env": ["A=image", "B=image"], "StopSignal": "SIGQUIT"}`
	for _, tt := range []struct {
		name, config, container string
		see                     func(s table.Service) any
		want                    string
	}{
		{"root", config, "", func(s table.Service) any { return *s.Root },
			"{registry.example/a:1 /run/garboard/pods/ns_p/.roots/c [/usr/lib/garboard/pods/ns_p/.roots/c /images/top /images/below] /var/lib/garboard/pods/ns_p/.roots/c false}"},
		{"entrypoint, looked up", config, "", func(s table.Service) any { return s.Command }, "[/usr/local/bin/app -v serve]"},
		{"arguments", config, "    args: [x]\n", func(s table.Service) any { return s.Command }, "[/usr/local/bin/app -v x]"},
		{"command", config, "    command: [other]\n", func(s table.Service) any { return s.Command }, "[/usr/bin/other]"},
		{"by its own PATH", config, "    env: [{name: PATH, value: \"relative:/usr/bin\"}]\n", func(s table.Service) any { return s.Command[0] }, "/usr/bin/app"},
		{"relative to the directory", config, "    command: [bin/x]\n", func(s table.Service) any { return s.Command[0] }, "/srv/bin/x"},
		{"as it is", config, "    command: [/opt/x]\n", func(s table.Service) any { return s.Command[0] }, "/opt/x"},
		{"user", config, "", func(s table.Service) any { return fmt.Sprint(s.User, ":", s.Group, " ", s.Groups) }, "100:101 [10 33]"},
		{"user of the manifest", config, "    securityContext: {runAsUser: 7, runAsGroup: 8}\n", func(s table.Service) any { return fmt.Sprint(s.User, ":", s.Group, " ", s.Groups) }, "7:8 []"},
		{"environment", config, "    env: [{name: B, value: own}]\n", func(s table.Service) any { return s.Env },
			"[A=image B=own PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv/app]"},
		{"home of nobody known", `{"Entrypoint": ["app"], "User": "5"}`, "", func(s table.Service) any { return s.Env[1] }, "HOME=/"},
		{"directory", config, "", func(s table.Service) any { return s.Dir }, "/srv"},
		{"directory of the manifest", config, "    workingDir: /tmp\n", func(s table.Service) any { return s.Dir }, "/tmp"},
		{"signal", config, "", func(s table.Service) any { return s.StopSignal }, "3"},
		{"signal by number", `{"Entrypoint": ["/x"], "StopSignal": "2"}`, "", func(s table.Service) any { return s.StopSignal }, "2"},
		{"signal, short", `{"Entrypoint": ["/x"], "StopSignal": "int"}`, "", func(s table.Service) any { return s.StopSignal }, "2"},
		{"a shell's own", `{"Entrypoint": ["/x", "kill $$; echo $(A)"], "Env": ["A=1"]}`, "", func(s table.Service) any { return s.Command[1] }, "kill $$; echo $(A)"},
		{"the manifest's words", `{"Entrypoint": ["/x", "$$"], "Cmd": ["$$"]}`, "    args: [$$, $(A)]\n    env: [{name: A, value: b}]\n", func(s table.Service) any { return s.Command }, "[/x $$ $ b]"},
		{"variable without a value", `{"Entrypoint": ["/x"], "Env": ["A", "B="]}`, "", func(s table.Service) any { return s.Env[:2] }, "[A= B=]"},
		{"mounts that arrive", config, "    volumeMounts: [{name: h, mountPath: /h, mountPropagation: HostToContainer}, {name: h, mountPath: /i, mountPropagation: None}]\n", func(s table.Service) any { return s.Mounts },
			"[{/h  /h false false false} {/h  /i false false true}]"},
		{"volumes in each other", config, "    volumeMounts: [{name: e, mountPath: /a/b/c}, {name: h, mountPath: /d/x}, {name: e, mountPath: /a, subPath: s}, {name: f, mountPath: /a/b}]\n",
			func(s table.Service) any { return s.Mounts },
			"[{/var/lib/garboard/pods/ns_p/e s /a false false true} {/h  /d/x false false true} {/var/lib/garboard/pods/ns_p/f  /a/b false false true} {/var/lib/garboard/pods/ns_p/e  /a/b/c false false true}]"},
		{"rights", config, "", func(s table.Service) any { return strings.Join(*s.Capabilities, " ") }, strings.Join(usualCapabilities, " ")},
		{"not privileged", config, "    securityContext: {privileged: false}\n", func(s table.Service) any { return len(*s.Capabilities) }, "9"},
		{"privileged", config, "    securityContext: {privileged: true, capabilities: {drop: [ALL]}}\n", func(s table.Service) any { return fmt.Sprint(s.Capabilities == nil, s.Root.Host) }, "true true"},
		{"read-only", config, "    securityContext: {readOnlyRootFilesystem: true}\n", func(s table.Service) any { return s.Root.Writes }, ""},
		{"to be written to", config, "    securityContext: {readOnlyRootFilesystem: false}\n", func(s table.Service) any { return s.Root.Writes != "" }, "true"},
		{"hook and probe, looked up", config, "    lifecycle: {preStop: {exec: {command: [other]}}}\n    livenessProbe: {exec: {command: [app, check]}}\n",
			func(s table.Service) any { return fmt.Sprint(s.PreStop.Exec, s.Live.Exec) }, "[/usr/bin/other] [/usr/local/bin/app check]"},
		{"volume at its own path", config, "    volumeMounts: [{name: h, mountPath: /h}]\n", func(s table.Service) any { return s.Mounts }, "[{/h  /h false false true}]"},
		{"part of a volume", config, "    volumeMounts: [{name: h, mountPath: /x, subPath: a/../b/}]\n", func(s table.Service) any { return s.Mounts }, ""},
		{"part of a volume, plain", config, "    volumeMounts: [{name: h, mountPath: /x, subPath: a/b}]\n", func(s table.Service) any { return s.Mounts }, "[{/h a/b /x false false true}]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := translate(t, silentPod("  volumes: [{name: h, hostPath: {path: /h}}, {name: e, emptyDir: {}}, {name: f, emptyDir: {}}]", rootImage+tt.container), Options{Target: Init, Images: inRecipe(tt.config, files)})
			if tt.name == "part of a volume" {
				if err == nil || !strings.Contains(err.Error(), "is not a path inside the volume") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c, err := Table([]*Plan{p})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(tt.see(c.Services[0])); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// What cannot be had is refused where it stands.
func TestRootImageRefusals(t *testing.T) {
	for _, tt := range []struct{ name, config, annotations, container, want string }{
		{"no such image", `{}`, "", "    image: registry.example/b:1\n", ".image: registry.example/b:1 is no image of the recipe"},
		{"nothing to run", `{}`, "", rootImage, "neither entrypoint nor command"},
		{"no such program", `{"Entrypoint": ["absent"]}`, "", rootImage, `"absent" is no program in image registry.example/a:1`},
		{"no program", `{"Entrypoint": ["text"], "Env": ["PATH=/opt"]}`, "", rootImage, "none of /opt has it"},
		{"no user", `{"Entrypoint": ["/x"], "User": "nobody-known"}`, "", rootImage, "nobody-known"},
		{"root where it must not be", `{"Entrypoint": ["/x"]}`, "", rootImage + "    securityContext: {runAsNonRoot: true}\n", "would run as root"},
		{"negative user", `{"Entrypoint": ["/x"], "User": "minus"}`, "", rootImage, `its user "minus": -5 in its /etc/passwd`},
		{"user that is no number", `{"Entrypoint": ["/x"], "User": "none"}`, "", rootImage, "4294967295 in its /etc/passwd"},
		{"group that is too large", `{"Entrypoint": ["/x"], "User": "7:vast"}`, "", rootImage, "99999999999 in its /etc/passwd or /etc/group"},
		{"groups that are", `{"Entrypoint": ["/x"], "User": "member"}`, "", rootImage, "99999999999 in its /etc/passwd or /etc/group"},
		{"no signal", `{"Entrypoint": ["/x"], "StopSignal": "?"}`, "", rootImage, "is no signal"},
		{"unknown signal", `{"Entrypoint": ["/x"], "StopSignal": "SIGFOO"}`, "", rootImage, `its StopSignal "SIGFOO" is no signal`},
		{"real-time signal", `{"Entrypoint": ["/x"], "StopSignal": "SIGRTMIN+3"}`, "", rootImage, "real-time signals are not the same numbers everywhere"},
		{"real-time signal by number", `{"Entrypoint": ["/x"], "StopSignal": "37"}`, "", rootImage, "real-time signals are not the same numbers everywhere"},
		{"variable without a name", `{"Entrypoint": ["/x"], "Env": ["=x"]}`, "", rootImage, "a name is needed"},
		{"NUL in a variable", `{"Entrypoint": ["/x"], "Env": ["A=\u0000"]}`, "", rootImage, "no NUL"},
		{"NUL in a word", `{"Entrypoint": ["/x", "\u0000"]}`, "", rootImage, "a word with a NUL"},
		{"empty word", `{"Entrypoint": [""]}`, "", rootImage, `"" is not a program`},
		{"relative directory", `{"Entrypoint": ["/x"], "WorkingDir": "srv"}`, "", rootImage, `.image: its working directory: "srv" is not an absolute path`},
		{"volume over what is the node's", `{"Entrypoint": ["/x"]}`, "", rootImage + "    volumeMounts: [{name: h, mountPath: /.garboard/x}]\n", "mount the volume elsewhere"},
		{"volume in proc", `{"Entrypoint": ["/x"]}`, "", rootImage + "    volumeMounts: [{name: h, mountPath: /proc/}]\n", "mount the volume elsewhere"},
		{"too many layers", `{"Entrypoint": ["/x"]}`, "", "    image: registry.example/many:1\n", ".image: root: 102 layers are more than one mount takes"},
		{"no configuration", `{`, "", rootImage, "its configuration: "},
		{"the runtime", `{"Entrypoint": ["/x"]}`, "garboard.local/role: runtime", rootImage, "the runtime mounts for the pods"},
		{"a socket in the image", `{"Entrypoint": ["/x"]}`, "garboard.local/ready-socket: /run/x.sock", rootImage, "make the socket in a volume"},
		{"mounts for others", `{"Entrypoint": ["/x"]}`, "", rootImage + "    securityContext: {privileged: true}\n    volumeMounts: [{name: h, mountPath: /h, mountPropagation: Bidirectional}]\n", "Bidirectional"},
	} {
		text := silentPod("  volumes: [{name: h, hostPath: {path: /h}}]", tt.container)
		if tt.annotations != "" {
			text = strings.Replace(text, "metadata: {name: p", "metadata: {annotations: {"+tt.annotations+"}, name: p", 1)
		}
		p, err := translate(t, text, Options{Target: Init, Images: inRecipe(tt.config, map[string]string{"opt/text": "",
			"etc/passwd": "minus:x:-5:6::/:/\nnone:x:4294967295:1::/:/\nmember:x:7:8::/:/\n", "etc/group": "vast:x:99999999999:member\n"})})
		if err == nil {
			_, err = Table([]*Plan{p})
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A socket in a volume is looked for where the node has it.
func TestSocketInAVolume(t *testing.T) {
	text := strings.Replace(silentPod("  volumes: [{name: v, emptyDir: {medium: Memory}}]", rootImage+"    volumeMounts: [{name: v, mountPath: /run/x}]\n"),
		"metadata: {name: p", "metadata: {annotations: {garboard.local/ready-socket: /run/x/s/a.sock}, name: p", 1)
	p, err := translate(t, text, Options{Target: Init, Images: inRecipe(`{"Entrypoint": ["/x"]}`, nil)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Table([]*Plan{p})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Services[0].Ready.Unix, "/run/garboard/pods/ns_p/v/s/a.sock"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Without a recipe a manifest is translated as far as it says everything itself.
func TestRootImageWithoutARecipe(t *testing.T) {
	for container, want := range map[string]string{
		"    command: [/x]\n": "", "": "is needed here", "    command: [x]\n": "must begin with an absolute path here",
		"    command: [/x]\n    livenessProbe: {exec: {command: [check]}}\n": "must begin with an absolute path here",
	} {
		p, err := translate(t, silentPod("", rootImage+container), Options{Target: Init})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", container, err, want)
		}
		if err != nil {
			continue
		}
		c, err := Table([]*Plan{p})
		if err != nil || c.Services[0].Root.Image != "registry.example/a:1" || len(c.Services[0].Root.Layers) != 0 {
			t.Errorf("%q: %v %+v", container, err, c)
		}
	}
}
