package observed

// Known are the differences that stay, with their reasons; the page has them in this order.
var Known = []Difference{
	{`[^:]*: variable (INVOCATION_ID|JOURNAL_STREAM|LANG|LOGNAME|MEMORY_PRESSURE_WATCH|MEMORY_PRESSURE_WRITE|SHELL|SYSTEMD_EXEC_PID|USER)`,
		"systemd gives every service variables of its own; they are left, since programs use them (to find the journal, for instance)."},
	{`[^:]*: variable TERM`, "cri-o sets TERM in every container; units have no terminal."},
	{`.*: (variable (NAME|HOSTNAME|LATER|GREETING)|name of the machine)`,
		"A kubelet appends the node's name to that of a static pod, and a pod without the host's network has a kernel hostname of its own; a unit's is the machine's."},
	{`.*: (pid namespace|uts namespace|is process 1)`, "A unit has neither a PID nor a UTS namespace: it sees its own number, and is told its name by a variable."},
	{`.*: network interfaces`, "There is no CNI under systemd: without the host's network a pod has a loopback interface."},
	{`.*: oom_score_adj`, "A kubelet makes it from the pod's QoS class; for a unit it is the annotation `garboard.local/oom-score-adj`, or nothing."},
	{`.*: seccomp`, "The node's kubelet gives every pod a filter (`seccompDefault`); a unit has one if the manifest asks for it, or if systemd needs one for its own protections."},
	{`.*: inheritable capabilities`, "systemd leaves SETPCAP in the inheritable set of a process with a filter. Nothing can be gained by it: no file grants it in turn, and the bounding set holds."},
	{`.*: opening /dev/kmsg`, "A container's /dev has no such file; a unit's has, and DevicePolicy= forbids it."},
	{`config(/.*)?: .*`, "A ConfigMap needs an API server: a kubelet that stands alone does not take the pod. For units it comes from a directory (`--objects`)."},
}
