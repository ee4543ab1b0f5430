package systemd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"garboard.local/pod"
)

// containers are the services of the pod, in the order of their start.
func (w *writer) containers() error {
	var inits, gates []string
	for i := range w.plan.Services {
		s := &w.plan.Services[i]
		name := w.name(s.Name, ".service")
		f := w.new(name, map[pod.Kind]string{pod.InitContainer: "Init container ", pod.Sidecar: "Sidecar ", pod.Container: "Container "}[s.Kind]+s.Name+" of "+w.title())
		sandbox := w.name("", ".service")
		// Those that run to their end are required: if one fails, nothing behind it
		// starts. Sidecars are only waited for: when one is restarted, what has
		// required it would be restarted too.
		f.unit("Requires", append([]string{sandbox}, inits...)...)
		f.unit("Wants", gates...)
		f.unit("After", slices.Concat([]string{sandbox}, inits, gates)...)
		if layered(s) {
			root, err := w.overlay(s)
			if err != nil {
				return err
			}
			f.unit("Requires", root)
			f.unit("After", root)
		}
		f.unit("PartOf", w.name("", ".target"))
		f.unit("StartLimitIntervalSec", "0") // as the kubelet: it never gives up
		if err := w.process(f, s); err != nil {
			return err
		}
		w.helpers(f, s)
		switch {
		case s.Kind == pod.InitContainer:
			inits = append(inits, name)
		case s.Kind == pod.Sidecar && s.Startup != nil:
			gates = append(gates, w.name(s.Name, "_startup.service"))
		case s.Kind == pod.Sidecar:
			gates = append(gates, name)
		}
	}
	return nil
}

// process is the [Service] section of a container.
func (w *writer) process(f *file, s *pod.Service) error {
	once := s.Kind == pod.InitContainer
	switch {
	case once:
		f.service("Type", "oneshot")
		f.service("RemainAfterExit", "yes")
	default:
		f.service("Type", "exec") // started means: executed, not just forked
		if s.Restart != "Always" {
			f.service("RemainAfterExit", "yes") // or it would run again with the next start of its target
		}
	}
	f.service("Slice", w.name("", ".slice"))
	f.service("ExecStart", command(s.Argv))
	if s.PostStart != nil {
		f.service("ExecStartPost", command(w.hook(s.PostStart)))
	}
	if s.PreStop != nil {
		f.service("ExecStop", command(w.hook(s.PreStop)))
	}
	w.restart(f, s)
	f.service("TimeoutStartSec", "infinity")
	f.service("TimeoutStopSec", w.grace())
	f.service("KillMode", "mixed") // the main process is asked, the rest ends with it
	if s.StopSignal != "" {
		f.service("KillSignal", s.StopSignal)
	}
	if w.plan.Deadline > 0 && !once {
		f.service("RuntimeMaxSec", fmt.Sprintf("%ds", w.plan.Deadline))
	}
	w.resources(f, "Service", s.Resources)
	f.service("OOMPolicy", "kill")
	if s.OOMScoreAdj != nil {
		f.service("OOMScoreAdjust", fmt.Sprint(*s.OOMScoreAdj))
	}
	return w.context(f, s)
}

// grace is the pod's, as a time span.
func (w *writer) grace() string {
	if w.plan.Grace == 0 {
		return "1ms" // 0 would mean no limit
	}
	return fmt.Sprintf("%ds", w.plan.Grace)
}

// hook completes a command that is the probe program's.
func (w *writer) hook(argv []string) []string {
	if argv[0] == "" {
		return append([]string{w.ProbePath}, argv[1:]...)
	}
	return argv
}

func (w *writer) restart(f *file, s *pod.Service) {
	if s.Restart == "Never" {
		if len(s.RestartCodes) > 0 {
			f.service("RestartForceExitStatus", numbers(s.RestartCodes))
		}
		return
	}
	f.service("Restart", map[string]string{"Always": "always", "OnFailure": "on-failure"}[s.Restart])
	if w.Version < versionDirect {
		f.service("RestartSec", "10s")
	} else {
		f.service("RestartSec", "1s")  // a kubelet starts at once the first time,
		f.service("RestartSteps", "5") // then after 10, 20, 40 ...: here it is 1, 3, 10, 31, 96, 300 seconds
		f.service("RestartMaxDelaySec", "300s")
		if s.Kind == pod.InitContainer {
			f.service("RestartMode", "direct") // those that require it go on waiting
		}
	}
	if len(s.RestartCodes) > 0 {
		f.service("RestartForceExitStatus", numbers(s.RestartCodes))
	}
}

func numbers(list []int32) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, " ")
}

// context is what a process of the container has around it: files, user,
// environment. Exec probes have the same.
func (w *writer) context(f *file, s *pod.Service) error {
	w.namespaces(f)
	if s.Root != "" {
		f.service("RootDirectory", raw(w.rootOf(s)))
		f.service("MountAPIVFS", "yes")
	}
	if s.Dir != "" {
		f.service("WorkingDirectory", raw(s.Dir))
	}
	// What systemd does not give, or something else, before what may take its place.
	for _, e := range append(s.UsualEnv(), s.Env...) {
		f.service("Environment", Word(e.Name+"="+e.Value))
	}
	if !path.IsAbs(s.Argv[0]) {
		f.service("ExecSearchPath", raw(s.SearchPath()))
	}
	if len(s.SecretEnv) > 0 {
		for _, e := range s.SecretEnv {
			if strings.Contains(e.Value, pod.NodeName) {
				return fmt.Errorf("container %s: variable %s holds a secret and the node's name, which only the machine knows; give --node-name", s.Name, e.Name)
			}
		}
		env := pod.File{Path: path.Join(w.plan.DataDir(), s.Name+".env"), Mode: 0o600, Content: EnvironmentFile(s.SecretEnv), Secret: true}
		if !slices.ContainsFunc(w.extra, func(x pod.File) bool { return x.Path == env.Path }) {
			w.extra = append(w.extra, env)
		}
		f.service("EnvironmentFile", raw(env.Path))
	}
	for _, m := range s.Mounts {
		name := "BindPaths"
		if m.ReadOnly {
			name = "BindReadOnlyPaths"
		}
		f.service(name, pathWord(m.Source)+":"+pathWord(m.Target))
	}
	if s.Root != "" && (s.PreStop != nil && s.PreStop[0] == "" || s.PostStart != nil && s.PostStart[0] == "") {
		w.bringProbe(f)
	}
	w.security(f, s)
	return nil
}

func (w *writer) bringProbe(f *file) {
	f.service("BindReadOnlyPaths", pathWord(w.ProbePath)+":"+pathWord(w.ProbePath))
}

func (w *writer) security(f *file, s *pod.Service) {
	root := s.User == "" || s.User == "0" || s.User == "root"
	if s.User != "" {
		f.service("User", s.User)
	}
	switch {
	case s.Group != "":
		f.service("Group", s.Group)
	case s.User != "" && s.User[0] >= '0' && s.User[0] <= '9':
		f.service("Group", "0") // a number may be nobody's, so it has no group of its own
	}
	if len(s.Groups) > 0 {
		var ids []string
		for _, g := range s.Groups {
			ids = append(ids, fmt.Sprint(g))
		}
		f.service("SupplementaryGroups", strings.Join(ids, " "))
	}
	if s.Caps != nil {
		f.service("CapabilityBoundingSet", capabilities(s.Caps))
	}
	if len(s.Ambient) > 0 {
		f.service("AmbientCapabilities", capabilities(s.Ambient))
	}
	if s.NoNewPrivs {
		f.service("NoNewPrivileges", "yes")
	}
	if s.Seccomp {
		f.service("SystemCallFilter", "@system-service")
		f.service("SystemCallErrorNumber", "EPERM")
		f.service("SystemCallArchitectures", "native")
	}
	if !s.Privileged {
		f.service("DevicePolicy", "closed")
		f.service("ProtectControlGroups", "yes")
		if root { // for other users it would imply NoNewPrivileges=, and they may not write there anyway
			f.service("ProtectKernelTunables", "yes")
		}
		if !w.plan.HostPID {
			f.service("ProtectProc", "invisible")
		}
	}
	if s.ReadOnly {
		f.service("ProtectSystem", "strict")
		for _, m := range s.Mounts {
			if !m.ReadOnly {
				f.service("ReadWritePaths", pathWord("+"+m.Target))
			}
		}
	}
	if s.AppArmor != "" {
		f.service("AppArmorProfile", raw(s.AppArmor))
	}
	if s.SELinux != "" {
		f.service("SELinuxContext", raw(s.SELinux))
	}
	for _, l := range s.Limits {
		f.service("Limit"+strings.ToUpper(l.Name), infinity(l.Soft)+":"+infinity(l.Hard))
	}
}

func infinity(s string) string {
	if s == "unlimited" {
		return "infinity"
	}
	return s
}

func capabilities(names []string) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = "CAP_" + n
	}
	return strings.Join(words, " ")
}
