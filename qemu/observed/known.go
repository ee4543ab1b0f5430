package observed

import "slices"

// Known are the differences that stay, with their reasons; the page has them in this order.
var Known = slices.Concat(knownSystemd, knownInit)

// knownSystemd are those where systemd runs the pods.
var knownSystemd = []Difference{
	{Systemd, `[^:]*: variable (INVOCATION_ID|JOURNAL_STREAM|LANG|LOGNAME|MEMORY_PRESSURE_WATCH|MEMORY_PRESSURE_WRITE|SHELL|SYSTEMD_EXEC_PID|USER)`,
		"systemd gives every service variables of its own; they are left, since programs use them (to find the journal, for instance). The user of number 1000 is one that the machine has, that of 1001 was made for the pods."},
	{Systemd, `[^:]*: variable HOME`,
		"A runtime looks HOME up in the image's /etc/passwd, of which there is none in this image; root's is /root on any machine."},
	{Systemd, `[^:]*: variable TERM`, "cri-o sets TERM in every container; units have no terminal."},
	{Systemd, `[^:]*: (variable (NAME|HOSTNAME|LATER)|name of the machine)`,
		"A kubelet appends the node's name to that of a static pod, and a pod without the host's network has a kernel hostname of its own; a unit's is the machine's."},
	{Systemd, `[^:]*: (has the machine's PID namespace|uts namespace|is process 1|sees the machine's processes)`,
		"A unit has neither a PID nor a UTS namespace: it sees its own number, and if it is root's those of others; its name comes in a variable."},
	{Systemd, `[^:]*: network interfaces`, "There is no CNI under systemd: without the host's network a pod has a loopback interface."},
	{Systemd, `[^:]*: oom_score_adj`, "A kubelet makes it from the pod's QoS class; for a unit it is the annotation `garboard.local/oom-score-adj`, or nothing."},
	{Systemd, `[^:]*: seccomp`, "The node's kubelet gives every pod a filter (`seccompDefault`); a unit has one if the manifest asks for it, or if systemd needs one for its own protections."},
	{Systemd, `filter/.*: inheritable capabilities`, "systemd leaves SETPCAP in the inheritable set of a process with a filter. Nothing is gained by it: no file grants it in turn."},
	{Systemd, `plain/mighty: (inheritable|ambient) capabilities`, "The runtime raises a privileged container's inheritable and ambient sets too. For root that changes nothing."},
	{Systemd, `[^:]*: opening /dev/kmsg`, "A container's /dev has no such file; a unit's has, and DevicePolicy= forbids it."},
	{Systemd, `work/main: /info(/deep)?`, "The directory of a downwardAPI volume has other modes. It is mounted read-only in both worlds, and its files are alike."},
	{Systemd, `[^:]*: state before`, "systemd keeps how a service ended last, not how the run before that did: once it runs or has ended again, the earlier status is in the journal alone."},
	{Systemd, `sides/one: preStop hook before the end of the containers`, "A kubelet runs all preStop hooks of a pod at once and signals sidecars last; systemd stops a sidecar's unit, hook and signal together, when those before which it comes have ended. The order of the ends is the same."},
	{Systemd, `config(/.*)?: .*`, "A ConfigMap needs an API server: a kubelet that stands alone does not take the pod. For units it comes from a directory (`--objects`)."},
}
