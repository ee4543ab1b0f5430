package pod

// Reasons that several fields share.
const (
	scheduling = "decides on which node a pod runs; here it runs where its manifest is"
	cluster    = "names or objects of a cluster's API server; a host service has none"
	notYet     = "not yet for PID 1; "
	asPod      = "run it as an ordinary pod"
	noImage    = "of images only a container's own is laid out in the root image; put the files into that, or into an overlay of the recipe"
)

func metadataEntries() []Entry {
	return []Entry{
		both("apiVersion", yes("v1; apps/v1 of a DaemonSet")),
		both("kind", yes("Pod; ConfigMap and Secret documents of the same file are what its references are resolved from; a List of them; a DaemonSet: the one pod that it has on a machine. Other kinds that make pods are refused: how many there are, and where, a cluster decides")),
		row("metadata.name", yes("the service's name; with several containers NAME-CONTAINER, which must differ from every other service's. Small letters, digits and -, 63 at most: a container of the node pod is called so"), yes("unit names, see below")),
		row("metadata.namespace", off("services of a node are not in namespaces; fieldRefs see it"), yes("unit names; default: default")),
		row("metadata.labels", off("for people and tools; fieldRefs see them"), yes("X-Garboard section of the units; fieldRefs see them")),
		row("metadata.annotations", yes("those of Garboard, see below; fieldRefs see all"), yes("those of Garboard, see below; all are kept in the X-Garboard section of the pod's target; fieldRefs see all")),
		both("metadata.uid", yes("what fieldRefs see; default: made from namespace and name, always the same")),
		both("metadata.generateName", no("a service needs a name that stays; set metadata.name")),
		both("metadata.finalizers", off(cluster)),
		both("metadata.ownerReferences", off(cluster)),
		both("metadata.managedFields", off(cluster)),
		both("metadata.creationTimestamp", off("written by the API server")),
		both("metadata.deletionTimestamp", off("written by the API server")),
		both("metadata.deletionGracePeriodSeconds", off("written by the API server")),
		both("metadata.generation", off("written by the API server")),
		both("metadata.resourceVersion", off("written by the API server")),
		both("metadata.selfLink", off("written by the API server")),
		both("status", off("written by the kubelet; `garboard convert --status` prints one")),
	}
}

// daemonSetEntries are what a DaemonSet has beside its template.
func daemonSetEntries() []Entry {
	const rollOut = "how a change reaches the nodes one by one; a machine has one pod, and convert changes it"
	return []Entry{
		both("DaemonSet.metadata", off("of the DaemonSet; its name and namespace are the pod's, whose labels and annotations are those of spec.template")),
		both("DaemonSet.spec.selector", off("which pods are its own: it has to match the template's labels, as an API server demands")),
		both("DaemonSet.spec.template.metadata", off("a pod of a DaemonSet is called after that")),
		both("DaemonSet.spec.updateStrategy", off(rollOut)),
		both("DaemonSet.spec.minReadySeconds", off(rollOut)),
		both("DaemonSet.spec.revisionHistoryLimit", off(rollOut)),
		both("DaemonSet.status", off("written by a controller")),
	}
}

func podEntries() []Entry {
	return []Entry{
		row("spec.restartPolicy", yes("as for the kubelet; back-off 1 s to 30 s"), yes("Always and OnFailure: Restart= with RestartSec= growing from 1 s to 300 s (before systemd 254: 10 s); OnFailure and Never: RemainAfterExit=, so that the exit status stays readable and nothing runs twice. With OnFailure a death by a SIGTERM, SIGINT, SIGHUP or SIGPIPE from elsewhere counts as success, as systemd has it")),
		row("spec.terminationGracePeriodSeconds", yes("seconds for the preStop hook, the stop signal and, of a sidecar, waiting for its turn together, then SIGKILL; default 30, and 2 at least for the signal"), yes("TimeoutStopSec=; default 30; SIGTERM to the main process, SIGKILL to all (KillMode=mixed). systemd counts it anew after ExecStop=, so with a preStop hook the limit of the whole is twice as long")),
		row("spec.activeDeadlineSeconds", no(notYet+"end the program itself, or "+asPod), yes("RuntimeMaxSec= of each container, with restartPolicy Never; refused with others, since systemd counts per run")),
		row("spec.hostNetwork", yes("true is what a host service has; false is refused"), yes("true: the host's network; otherwise PrivateNetwork=, one network per pod (JoinsNamespaceOf=) with a loopback interface only: systemd has no CNI")),
		row("spec.hostPID", yes("true is what a host service has; false is refused"), yes("true: the host's processes are seen; otherwise ProtectProc=invisible hides those of others. There is no PID namespace: pids are the host's")),
		row("spec.hostIPC", yes("true is what a host service has; false is refused"), yes("true: the host's; otherwise PrivateIPC=, one per pod (JoinsNamespaceOf=)")),
		row("spec.shareProcessNamespace", yes("true is what host services have; false is refused"), yes("false only: there is no PID namespace to share")),
		row("spec.hostUsers", yes("true only"), yes("true only: PrivateUsers= maps no ranges as a pod's user namespace does")),
		row("spec.hostname", no("the node's hostname is the recipe's; leave it out"), yes("the variable HOSTNAME; the kernel's name stays the host's")),
		row("spec.hostnameOverride", no("the node's hostname is the recipe's; leave it out"), yes("the variable HOSTNAME; the kernel's name stays the host's")),
		row("spec.setHostnameAsFQDN", no("the node's hostname is the recipe's; leave it out"), yes("false only: the kernel's hostname stays the host's; set spec.hostname")),
		both("spec.subdomain", off("a name in a cluster's DNS, which does not know this service either")),
		row("spec.dnsPolicy", yes("Default, and ClusterFirst with the host's network, which means the same: the node's /etc/resolv.conf; others are refused"), yes("Default, and ClusterFirst with the host's network: the host's /etc/resolv.conf; None: a file made from dnsConfig, bound over it; ClusterFirst without the host's network: there is no network either; ClusterFirstWithHostNet is refused: use None with the cluster's DNS address")),
		row("spec.dnsConfig", no("services share the node's /etc/resolv.conf; change that"), yes("with dnsPolicy None: a resolv.conf bound over /etc/resolv.conf")),
		row("spec.hostAliases", no("services share the node's /etc/hosts; change that in an overlay"), yes("without the host's network: a hosts file bound over /etc/hosts; with it refused: change the host's file")),
		row("spec.resources", no("give requests to the containers"), yes("MemoryMax=, CPUQuota=, CPUWeight=, MemoryMin= of the pod's slice")),
		both("spec.os", yes("linux")),
		both("spec.runtimeClassName", no("there is no container runtime under a host service; "+asPod)),
		both("spec.ephemeralContainers", no("they are added to running pods by an API server; leave them out")),
		both("spec.resourceClaims", no("devices are allocated by a cluster's scheduler; "+asPod)),
		both("spec.readinessGates", no("conditions are set through an API server, so the pod would never be ready; use a readinessProbe")),
		both("spec.schedulingGates", no("the pod would wait for an API server for ever; leave them out")),
		both("spec.serviceAccountName", yes("with automountServiceAccountToken: false, for fieldRefs; otherwise refused: the program counts on a token that nobody issues here")),
		both("spec.serviceAccount", yes("the old name of serviceAccountName; as that")),
		both("spec.automountServiceAccountToken", yes("false only: nobody issues tokens here; mount a credential from a file")),
	}
}

func ignoredEntries() []Entry {
	return []Entry{
		both("spec.nodeSelector", off(scheduling)),
		both("spec.nodeName", off(scheduling)),
		both("spec.affinity", off(scheduling)),
		both("spec.tolerations", off(scheduling)),
		both("spec.topologySpreadConstraints", off(scheduling)),
		both("spec.schedulerName", off(scheduling)),
		both("spec.schedulingGroup", off(scheduling)),
		both("spec.overhead", off(scheduling)),
		both("spec.preemptionPolicy", off("decides which pods the scheduler takes away for this one; here none is")),
		both("spec.priority", off("order of eviction by the kubelet, which does not know host services")),
		both("spec.priorityClassName", off("order of eviction by the kubelet, which does not know host services; `garboard.local/oom-score-adj` protects from the kernel")),
		both("spec.enableServiceLinks", off("adds variables of a cluster's Services, of which there are none")),
		both("spec.imagePullSecrets", off("nothing is pulled when a service starts")),
	}
}

func securityEntries() []Entry {
	const p = "spec.securityContext."
	return []Entry{
		both(p+"runAsUser", yes("of all containers that have none of their own; see there")),
		both(p+"runAsGroup", yes("of all containers that have none of their own; see there")),
		both(p+"runAsNonRoot", yes("checked when the manifest is read: the user must be given and not be root")),
		row(p+"supplementalGroups", yes("setgroups(2) before the program starts"), yes("SupplementaryGroups=")),
		both(p+"supplementalGroupsPolicy", yes("Merge, the default: the groups that the image's /etc/group gives a user other than root are added; Strict: not. Alike without images")),
		row(p+"fsGroup", yes("setgroups(2) before the program starts, and emptyDirs (set-group-ID, group-writable) and the files of configMaps belong to the group; hostPaths are left as they are, as by a kubelet"), yes("SupplementaryGroups=, and emptyDirs (set-group-ID, group-writable), configMaps and secrets belong to the group")),
		both(p+"fsGroupChangePolicy", off("when a kubelet changes what a volume holds; the pod's directories are made anew, so there is nothing to change")),
		row(p+"sysctls", no("they would be the whole node's; set them in the recipe (sysctls)"), yes("set by the sandbox in the pod's namespaces; net.* is refused with the host's network, kernel.* and fs.mqueue.* with the host's IPC, others always")),
		both(p+"seccompProfile", yes("of all containers that have none of their own; see there")),
		row(p+"appArmorProfile", no(notYet+"the kernel of the node has no profiles"), yes("of all containers that have none of their own; see there")),
		row(p+"seLinuxOptions", no("the node has no SELinux policy; leave it out"), yes("SELinuxContext=; all four parts are needed")),
		both(p+"seLinuxChangePolicy", off("how volumes are labelled; no volume is")),
		both(p+"windowsOptions", no("this is Linux; a user by name is the annotation `garboard.local/user`")),
	}
}

func volumeEntries() []Entry {
	const v = "spec.volumes[]."
	volume := func(name, how string, systemd string) Entry { return row(v+name, yes(how), yes(systemd)) }
	secret := func(name, systemd string) Entry {
		return row(v+name, no("an image can be read by everybody who has it; put the file on the data partition and use hostPath"), yes(systemd))
	}
	old := func(name string) Entry {
		return both(v+name, no("a volume driver of the kubelet; mount it on the host and use hostPath"))
	}
	return []Entry{
		row(v+"name", yes("what volumeMounts refer to"), yes("what volumeMounts refer to, and the directory's name")),
		row(v+"hostPath.path", yes("at its own path the node's file itself; elsewhere, read-only or in part a bind mount in a mount namespace of the service's own"), yes("BindPaths=, BindReadOnlyPaths=")),
		row(v+"hostPath.type", yes("Directory, File, Socket and none: taken as a remark. DirectoryOrCreate and FileOrCreate are refused: make it in the recipe (dirs)"), yes("DirectoryOrCreate, FileOrCreate: made by systemd-tmpfiles with an existing one left as it is; Directory, File, Socket, CharDevice, BlockDevice: AssertPath...= of the sandbox, which sees existence and directories only")),
		volume("emptyDir", "one directory per pod and boot, mode 0777, on the data partition where there is one; the pod's services share it through bind mounts. It is empty at each boot", "one directory per pod, mode 0777, made when the pod starts, removed when it stops, never another pod's"),
		volume("emptyDir.medium", "Memory: a tmpfs of the pod's own, at most a tenth of the memory unless sizeLimit says otherwise; HugePages are refused", "Memory: a tmpfs of the pod's own (a .mount unit); HugePages are refused"),
		volume("emptyDir.sizeLimit", "with medium Memory: size= of the tmpfs; otherwise refused, since nothing would hold it", "with medium Memory: size= of the tmpfs; otherwise refused, since nothing would hold it: the kubelet evicts, systemd does not"),
		volume("configMap", "files in the root image, from a ConfigMap document of the same file, bound read-only", "files in the pod's directory, from a ConfigMap document of the same file or from --objects, bound read-only; a change reaches the pod when it is converted and started again"),
		secret("secret", "as configMap; the pod's directory is closed to all but root, outside the pod's own mounts"),
		volume("downwardAPI", "files in the root image, written when it is built", "files in the pod's directory, written when converted"),
		volume("projected.defaultMode", "mode of the files", "mode of the files"),
		volume("projected.sources[].configMap", "as a configMap volume", "as a configMap volume"),
		secret("projected.sources[].secret", "as a secret volume"),
		volume("projected.sources[].downwardAPI", "as a downwardAPI volume", "as a downwardAPI volume"),
		both(v+"projected.sources[].serviceAccountToken", no("an API server issues tokens and renews them; mount a credential from a file (hostPath)")),
		both(v+"projected.sources[].clusterTrustBundle", no("an API server holds the bundles; mount the certificates from a file (hostPath)")),
		both(v+"projected.sources[].podCertificate", no("an API server issues the certificate; mount one from a file (hostPath)")),
		both(v+"persistentVolumeClaim", no("a cluster binds claims; mount the storage on the host and use hostPath")),
		both(v+"ephemeral", no("a cluster binds claims; use emptyDir or hostPath")),
		both(v+"csi", no("the kubelet talks to CSI drivers; mount the storage on the host and use hostPath")),
		row(v+"image", no(noImage), no("an OCI volume is pulled by a runtime; unpack it on the host (as --image does) and use hostPath")),
		both(v+"gitRepo", no("removed from Kubernetes; clone in an init container into an emptyDir")),
		old("gcePersistentDisk"), old("awsElasticBlockStore"), old("nfs"), old("iscsi"), old("glusterfs"), old("rbd"), old("flexVolume"),
		old("cinder"), old("cephfs"), old("flocker"), old("fc"), old("azureFile"), old("vsphereVolume"), old("quobyte"), old("azureDisk"),
		old("photonPersistentDisk"), old("portworxVolume"), old("scaleIO"), old("storageos"),
	}
}
