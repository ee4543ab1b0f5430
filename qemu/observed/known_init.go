package observed

// knownInit are the differences that stay where PID 1 runs the pods.
var knownInit = []Difference{
	{Init, `[^:]*: variable TERM`, "cri-o sets TERM in every container; services have no terminal."},
	{Init, `[^:]*: (variable (HOSTNAME|NAME|LATER)|name of the machine)`,
		"A kubelet appends the node's name to that of a static pod, and a pod without the host's network has a kernel hostname of its own; a service's is the node's."},
	{Init, `[^:]*: (net namespace|ipc namespace|uts namespace|network interfaces|has the machine's PID namespace|is process 1|sees the machine's processes)`,
		"A service of PID 1 is in the node's namespaces, but for mounts, also with an image: it is what a node needs outside of containers. A manifest that says hostNetwork: false, or the like, is refused; one that says nothing is not."},
	{Init, `plain/mighty: (inheritable|ambient) capabilities`, "The runtime raises a privileged container's inheritable and ambient sets too. For root that changes nothing."},
	{Init, `[^:]*: seccomp`, "The node's kubelet gives every pod a filter (`seccompDefault`); PID 1 gives none unless a manifest asks for one."},
	{Init, `[^:]*: oom_score_adj`, "A kubelet makes it from the pod's QoS class; for a service it is the annotation `garboard.local/oom-score-adj`, or 0."},
	{Init, `work/main: /info`, "What a downwardAPI volume holds is known when the image is built, and lies in the read-only root with the modes of directories there. Its files are alike."},
	{Init, `crash/main: pause before its fourth run`, "PID 1 waits 1, 2, 4 to 30 s, a kubelet (about) 0, 10, 20 to 300 s: a node's own services are what all else waits for."},
	{Init, `config(/.*)?: .*`, "A ConfigMap needs an API server: a kubelet that stands alone does not take the pod. For PID 1 it is a document among the recipe's services."},
}
