package pod

import (
	"fmt"
	"strings"
)

// Target is what a Pod is translated for.
type Target string

// The targets.
const (
	Init    Target = "init"    // a service of PID 1 on a Garboard node
	Systemd Target = "systemd" // unit files for another machine
)

// Verdict is what happens to a field.
type Verdict string

// The verdicts.
const (
	Supported Verdict = "supported" // the text says how
	Ignored   Verdict = "ignored"   // the text says why that is safe
	Refused   Verdict = "refused"   // the text says why, and what to use instead
)

// Rule is what happens to a field for one target.
type Rule struct {
	Verdict Verdict
	Text    string
}

// Entry is one row of the mapping. It speaks for its field and for everything
// below it that has no entry of its own.
type Entry struct {
	Field   string // such as spec.containers[].command
	Init    Rule
	Systemd Rule
}

// For is the rule for a target.
func (e Entry) For(t Target) Rule {
	if t == Init {
		return e.Init
	}
	return e.Systemd
}

func yes(text string) Rule { return Rule{Supported, text} }
func no(text string) Rule  { return Rule{Refused, text} }
func off(text string) Rule { return Rule{Ignored, text} }

// row and both make entries: different rules, or one rule for both targets.
func row(field string, init, systemd Rule) Entry { return Entry{field, init, systemd} }
func both(field string, r Rule) Entry            { return Entry{field, r, r} }

// Mapping is the whole mapping, in the order of docs/pod-mapping.md.
func Mapping() []Entry {
	var out []Entry
	for _, part := range [][]Entry{metadataEntries(), daemonSetEntries(), podEntries(), ignoredEntries(), securityEntries(), volumeEntries(), containerEntries(), probeEntries(), containerSecurityEntries(), initContainerEntries()} {
		out = append(out, part...)
	}
	return out
}

// index finds entries by field.
type index map[string]Entry

func newIndex() index {
	x := index{}
	for _, e := range Mapping() {
		x[e.Field] = e
	}
	return x
}

const (
	containers     = "spec.containers[]"
	initContainers = "spec.initContainers[]"
)

// find is the entry that speaks for a field: its own, or that of the nearest
// thing around it. An init container's fields mean what a container's do, unless
// an entry of their own is as near or does not support them.
func (x index) find(field string, target Target) (Entry, bool) {
	own, ok := x.nearest(field)
	rest, inner := strings.CutPrefix(field, initContainers+".")
	if !inner {
		return own, ok
	}
	common, found := x.nearest(containers + "." + rest)
	switch {
	case !ok || own.Field == initContainers:
		return common, found
	case !found, own.For(target).Verdict != Supported, len(own.Field)-len(initContainers) >= len(common.Field)-len(containers):
		return own, true
	}
	return common, true
}

// nearest is the entry of a field or of the nearest thing around it.
func (x index) nearest(field string) (Entry, bool) {
	for f := field; f != ""; f = parent(f) {
		if e, ok := x[f]; ok {
			return e, true
		}
	}
	return Entry{}, false
}

// Lookup is the row that speaks for a field, such as
// spec.initContainers[].command, for a target.
func Lookup(field string, target Target) (Entry, bool) { return newIndex().find(field, target) }

// parent is the path of what holds a field.
func parent(field string) string {
	if f, ok := strings.CutSuffix(field, "[]"); ok {
		return f
	}
	i := strings.LastIndexByte(field, '.')
	return field[:max(i, 0)]
}

// Markdown is docs/pod-mapping.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(mappingHead)
	section := ""
	for _, e := range Mapping() {
		if s := heading(e.Field); s != section {
			section = s
			fmt.Fprintf(&b, "\n## %s\n\n| field | as a service of PID 1 | as systemd units |\n|---|---|---|\n", s)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Field, cell(e.Init), cell(e.Systemd))
	}
	b.WriteString(mappingTail())
	return b.String()
}

func cell(r Rule) string {
	return string(r.Verdict) + ": " + strings.ReplaceAll(r.Text, "|", `\|`)
}

func heading(field string) string {
	switch {
	case strings.HasPrefix(field, "DaemonSet."):
		return "DaemonSet"
	case strings.HasPrefix(field, initContainers):
		return "Init containers"
	case strings.Contains(field, "Probe"):
		return "Probes"
	case strings.HasPrefix(field, containers+".securityContext"):
		return "Security of a container"
	case strings.HasPrefix(field, containers+"."):
		return "Containers"
	case strings.HasPrefix(field, "spec.volumes"):
		return "Volumes"
	case strings.HasPrefix(field, "spec.securityContext"):
		return "Security of the pod"
	case strings.HasPrefix(field, "spec."):
		return "Pod"
	}
	return "Object"
}

const mappingHead = `<!-- Generated from the table in package pod; go test ./pod -update writes it. -->
# What a Pod means as a host service

One table says what every field of a Pod means to the services that PID 1 runs on a Garboard node and to the systemd units that
` + "`garboard convert --to systemd`" + ` writes. A field is *supported*, *ignored* (because that is safe), or *refused* (because it is not): nothing is dropped
silently; and what an API server would refuse is refused, too. ` + "`garboard convert --explain POD.yaml`" + ` prints the rows that a manifest touches, with its lines. Some supported fields take some values only; other values are refused with
the reason. A row speaks for everything below its field that has no row of its own. Why things are as they are is in
[decisions/0013](decisions/0013-pods-as-services.md).
`

func mappingTail() string {
	var b strings.Builder
	b.WriteString("\n## Annotations\n\nWhat Pods have no word for. An annotation `garboard.local/...` that is not in this table is an error; others are kept.\n\n| annotation | meaning | PID 1 | systemd |\n|---|---|---|---|\n")
	for _, a := range knownAnnotations() {
		name := a.Name
		if a.PerContainer {
			name += "[.CONTAINER]"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, a.Text, cell(a.Init), cell(a.Systemd))
	}
	b.WriteString("\n`[.CONTAINER]`: with a dot and a container's name, for that container alone; without, for all of the pod.\n")
	b.WriteString(mappingUnits)
	return b.String()
}

const mappingUnits = `
## The units of a pod

Names are escaped as systemd escapes, so that a dash only separates; and names in Kubernetes have no underscore: no two pods or containers share a unit. For a pod NAME in namespace NS:

| unit | what it is |
|---|---|
| ` + "`pod-NS-NAME.target`" + ` | the pod: start and stop it by this. Reached when its containers were started |
| ` + "`pod-NS-NAME_ready.target`" + ` | reached when every readiness probe has succeeded once; what comes after the pod waits for it |
| ` + "`pod-NS-NAME.slice`" + ` | the pod's cgroup |
| ` + "`pod-NS-NAME.service`" + ` | the sandbox: makes the pod's directories, holds its namespaces, removes its emptyDirs when it stops |
| ` + "`pod-NS-NAME_after.service`" + ` | waits for what the pod comes after, at most ` + "`garboard.local/wait-seconds`" + ` |
| ` + "`pod-NS-NAME-CONTAINER.service`" + ` | a container; an init container is a oneshot, which those behind it require and come after |
| ` + "`pod-NS-NAME-CONTAINER_startup.service`" + `, ` + "`_readiness.service`" + ` | wait for a probe; what must wait for the container comes after them |
| ` + "`pod-NS-NAME-CONTAINER_liveness.service`" + ` | probes; when it fails, ` + "`_restart.service`" + ` has systemd end the container and start it again by its policy |
| ` + "`run-garboard-pods-NS_NAME-.root-CONTAINER.mount`" + ` | with images: the container's layer above its image |

Files of a pod (configMaps, secrets, environment that must not be public) lie in ` + "`/etc/garboard/pods/NS_NAME`" + ` (0700), its emptyDirs in ` + "`/var/lib/garboard/pods/NS_NAME`" + ` or, with
` + "`medium: Memory`" + `, on a tmpfs in ` + "`/run/garboard/pods/NS_NAME`" + `. Probes are run by the program garboard-probe (cmd/garboard-probe), which has to be at ` + "`/usr/lib/garboard/probe`" + ` on the machine.
systemd starts nothing as a number that is no user or group of the machine, so the sandbox has systemd-sysusers make one, called ` + "`pod-NUMBER`" + `, where there is none. They stay when the pod goes (decisions/0013), and do no harm:
nobody can log in as one. How all this compares with a
kubelet is in [pod-observed.md](pod-observed.md): both were run, and PID 1 too.
`
