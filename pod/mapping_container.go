package pod

func containerEntries() []Entry {
	const c = containers + "."
	return []Entry{
		both(c+"name", yes("part of the service's and the units' names")),
		row(c+"image", yes("one of the recipe's `images`, by its name; another is refused. Its layers, which lie in the root image, are the service's root directory, below a layer of its own that is empty at each boot (overlayfs); if the disk is full or read-only then, nothing can be written to it. As in a container its /dev is its own, and /proc and /sys are closed where they would change the node; places for mounts, /etc/hosts and /etc/resolv.conf (the node's) are there whatever the image has; an image whose /proc, /sys or /dev is a link is refused. Processes, network and IPC are the node's, as in a container with hostPID, hostNetwork and hostIPC: as root it can end the node's processes and the node, and gets through /proc to the files of those that have no capability which it lacks. Give it a user. The image's configuration gives entrypoint, command, environment, user, directory and stop signal where the manifest does not. Without it the programs are the root image's: of packages, components, overlays and `programs`"), yes("with --images DIR: RootDirectory= with the image's files, which --image and --pull unpack, below a layer of the container's own (a .mount unit of overlayfs), which is there from the pod's start to its end; with readOnlyRootFilesystem the files themselves; the image's configuration gives entrypoint, command, environment, user, directory and stop signal where the manifest does not. Without --images: the programs are the host's own")),
		row(c+"imagePullPolicy", off("nothing is pulled when a service starts"), off("nothing is pulled when a unit starts; `convert --pull` goes by it: Always asks the registry each time, IfNotPresent when the image is not there, Never not at all")),
		row(c+"command", yes("argv, as it is, after $(VAR) expansion as in Kubernetes; what the image gives is not expanded. Never joined, never given to a shell; the first is an absolute path, or with an image a name that is looked up in PATH there when the root image is built"), yes("ExecStart= with each word quoted and nothing expanded by systemd")),
		row(c+"args", yes("argv, behind command"), yes("ExecStart=, behind command")),
		row(c+"workingDir", yes("chdir(2) before the program starts"), yes("WorkingDirectory=")),
		both(c+"ports[].name", off("tells people and Services; nothing is opened or closed by it")),
		both(c+"ports[].containerPort", off("tells people and Services; nothing is opened or closed by it")),
		both(c+"ports[].protocol", off("tells people and Services; nothing is opened or closed by it")),
		both(c+"ports[].hostPort", yes("the same as containerPort, with the host's network; another is refused: nothing forwards ports")),
		both(c+"ports[].hostIP", no("nothing forwards ports; tell the program which address to listen on")),
		row(c+"env[].name", yes("a variable"), yes("Environment=; names that systemd would drop (others than letters, digits and _) are refused")),
		both(c+"env[].value", yes("as it is, after $(VAR) expansion as in Kubernetes")),
		row(c+"env[].valueFrom.fieldRef", yes("metadata.*, spec.serviceAccountName; the node's name and addresses are known at boot only and refused"), yes("metadata.*, spec.nodeName (%H, or --node-name), spec.serviceAccountName; status.hostIP and status.podIP with --node-ip")),
		both(c+"env[].valueFrom.resourceFieldRef", yes("the container's own requests and limits")),
		both(c+"env[].valueFrom.configMapKeyRef", yes("from a ConfigMap document of the same file, or the file OBJECTS/configmaps/NAMESPACE/NAME/KEY; read when converted")),
		row(c+"env[].valueFrom.secretKeyRef", no("the table lies in an image that everybody may read; let the program read a file"), yes("as configMapKeyRef, from secrets/; in a file of mode 0600 (EnvironmentFile=), never in the unit")),
		both(c+"env[].valueFrom.fileKeyRef", no("a file that a container writes at run time; let the program read it")),
		both(c+"envFrom[].prefix", yes("put before each name")),
		both(c+"envFrom[].configMapRef", yes("every key of it that can be a variable's name; others are refused")),
		row(c+"envFrom[].secretRef", no("the table lies in an image that everybody may read; let the program read a file"), yes("every key, in a file of mode 0600 (EnvironmentFile=)")),
		row(c+"resources.requests", yes("cpu: cpu.weight, as the kubelet would set it; memory: memory.min. Others are refused"), yes("cpu: CPUWeight=, as the kubelet would set it; memory: MemoryMin=; ephemeral-storage is taken as a remark; others are refused")),
		row(c+"resources.limits", yes("cpu: cpu.max; memory: memory.max. Others are refused"), yes("cpu: CPUQuota=; memory: MemoryMax=, and the whole container ends with the one killed (OOMPolicy=kill); others are refused")),
		both(c+"resources.claims", no("devices are allocated by a cluster's scheduler; "+asPod)),
		both(c+"resizePolicy", off("limits do not change while a service runs")),
		row(c+"restartPolicy", yes("instead of the pod's"), yes("instead of the pod's")),
		row(c+"restartPolicyRules", no(notYet+"use restartPolicy"), yes("exitCodes with operator In: RestartForceExitStatus=; NotIn is refused, systemd lists only codes")),
		row(c+"volumeMounts[].name", yes("the volume"), yes("the volume")),
		row(c+"volumeMounts[].mountPath", yes("a bind mount. The place is made in the root image, or by PID 1 on the file systems that can be written to; with an image in a layer above it or, below /dev, in the service's own. One in the directory of another comes after that, whatever the order; its place is made in emptyDirs, and has to be there in other volumes. With an image /proc is the node's: nothing is mounted there"), yes("BindPaths=; over the host's files if the container has no root of its own")),
		row(c+"volumeMounts[].readOnly", yes("a read-only bind mount"), yes("BindReadOnlyPaths=")),
		row(c+"volumeMounts[].recursiveReadOnly", yes("Disabled, IfPossible and Enabled alike: what is mounted below is read-only too"), yes("Disabled, IfPossible and Enabled alike: systemd makes what is mounted below read-only too")),
		row(c+"volumeMounts[].subPath", yes("part of the bind mount's source; made first in an emptyDir. A symbolic link on its way may not lead out of the volume, as in Kubernetes"), yes("part of the bind mount's source; made first in an emptyDir. systemd follows symbolic links in it")),
		row(c+"volumeMounts[].subPathExpr", yes("subPath after $(VAR) expansion"), yes("subPath after $(VAR) expansion")),
		row(c+"volumeMounts[].mountPropagation", yes("with an image as in a container: HostToContainer: what the node mounts in the volume later arrives; None, the default: not. Without one both alike: it arrives. Bidirectional of a service without an image whose volumes are hostPaths at their own paths: it is in the node's mount namespace; otherwise refused"), yes("None and HostToContainer alike: mounts of the host reach the unit. Bidirectional is refused: nothing mounted in a unit's namespace reaches the host; "+asPod)),
		both(c+"volumeDevices", no("block devices come from claims, which a cluster binds; use the device's path with privileged: true")),
		row(c+"lifecycle.preStop.exec", yes("run as the service is: as its user, with its capabilities, limits, environment and mounts (made anew). Its time is part of the grace, as in Kubernetes; killed with all its children when that is over. Its failure is reported and ends nothing; then the stop signal, with 2 s at least"), yes("ExecStop=; then SIGTERM")),
		row(c+"lifecycle.preStop.sleep", yes("a wait of 1 s to the whole grace, which it is part of; then the stop signal, with 2 s at least"), yes("ExecStop= with the probe program's sleep; then SIGTERM")),
		row(c+"lifecycle.preStop.httpGet", no("not for PID 1, which has no HTTP in it; use exec"), no("use exec")),
		both(c+"lifecycle.preStop.tcpSocket", no("means nothing in Kubernetes either; use exec")),
		row(c+"lifecycle.postStart.exec", yes("run as the service is, beside it. Until it has succeeded the service has not started: it is not probed, and what waits for it waits; its failure, or an hour without an end, ends the service by its grace, and its policy decides then"), yes("ExecStartPost=; its failure ends the container")),
		row(c+"lifecycle.postStart.sleep", yes("until it is over the service has not started"), yes("ExecStartPost= with the probe program's sleep")),
		row(c+"lifecycle.postStart.httpGet", no("not for PID 1, which has no HTTP in it; use exec"), no("use exec")),
		both(c+"lifecycle.postStart.tcpSocket", no("means nothing in Kubernetes either; use exec")),
		row(c+"lifecycle.stopSignal", yes("sent in place of SIGTERM, or of the image's; real-time signals are refused, the image's too"), yes("KillSignal=; default that of the image, else SIGTERM")),
		both(c+"terminationMessagePath", off("where the kubelet looks for a last message; the log has it")),
		both(c+"terminationMessagePolicy", off("where the kubelet looks for a last message; the log has it")),
		row(c+"stdin", yes("false only: standard input is /dev/null"), yes("false only: standard input is /dev/null")),
		both(c+"stdinOnce", yes("false only: standard input is /dev/null")),
		both(c+"tty", yes("false only: output goes to a log, not to a terminal")),
	}
}

func probeEntries() []Entry {
	var out []Entry
	const later = "not for PID 1, which has no HTTP in it; use exec or tcpSocket"
	for _, p := range []struct{ name, init, systemd, period string }{
		{"startupProbe", "until it succeeds the service is neither ready nor probed otherwise; at its failure it is ended by its grace and started again by its policy", "a oneshot that probes until it succeeds; what comes after the container waits for it, liveness begins after it, and at its failure the container is restarted", "default 10"},
		{"livenessProbe", "at its failure the service is ended by its grace and started again by its policy", "a unit beside the container that probes; at its failure the container is ended by its grace and started again by its policy, with the back-off and counted (as by its watchdog; with a preStop hook, which a watchdog passes over, by systemctl restart: at once and not counted)", "default 10"},
		{"readinessProbe", "until it first succeeds what comes after the service waits (at most its wait-seconds); it is not probed again afterwards", "a oneshot that waits for the first success; the pod's _ready.target waits for it, and so does what comes after the pod. It is not probed again afterwards", "default 50 ms for PID 1, since a node boots in seconds"},
	} {
		at := containers + "." + p.name + "."
		failures := row(at+"failureThreshold", yes("failures in a row that are one too many; default 3"), yes("--failures of the probe program; default 3"))
		if p.name == "readinessProbe" {
			failures = both(at+"failureThreshold", off("readiness is waited for without a limit"))
		}
		out = append(out,
			row(at+"exec", yes("status 0 is success; run with the service's user, files and environment; "+p.init), yes("status 0 is success; run with the container's user, files and environment; "+p.systemd)),
			row(at+"tcpSocket", yes("a connection is success; host defaults to 127.0.0.1; "+p.init), yes("a connection is success; host defaults to 127.0.0.1; "+p.systemd)),
			row(at+"httpGet", no(later), yes("by the probe program; status 200 to 399 is success; certificates are not verified, as in Kubernetes; "+p.systemd)),
			row(at+"grpc", no(later), yes("by the probe program; SERVING is success; "+p.systemd)),
			row(at+"initialDelaySeconds", yes("seconds before the first attempt"), yes("--delay of the probe program")),
			row(at+"periodSeconds", yes("seconds between two attempts; "+p.period), yes("--period of the probe program; default 10")),
			row(at+"timeoutSeconds", yes("seconds of one attempt at most; default 1"), yes("--timeout of the probe program; default 1")),
			row(at+"successThreshold", yes("successes in a row that are enough; default 1"), yes("--successes of the probe program; default 1")),
			failures,
			both(at+"terminationGracePeriodSeconds", no("a restart takes the pod's grace; leave it out")),
		)
	}
	return out
}

func containerSecurityEntries() []Entry {
	const s = containers + ".securityContext."
	return []Entry{
		row(s+"runAsUser", yes("setuid(2) before the program starts; default the image's, looked up in the image's own /etc/passwd, or the user of `garboard.local/user`, or root. With an image HOME is by that file too"), yes("User=; default the image's, looked up in the image's own /etc/passwd, or the user of `garboard.local/user`, or root. With an image HOME is by that file too")),
		row(s+"runAsGroup", yes("setgid(2) before the program starts; default the image's, or the user's in the image's /etc/passwd, or that of `garboard.local/group`, or 0"), yes("Group=; default the image's, or the user's in the image's /etc/passwd, or that of `garboard.local/group`, or 0")),
		both(s+"runAsNonRoot", yes("checked when the manifest is read: the user must be given and not be root")),
		row(s+"privileged", yes("true: every capability, and the node's own /dev, /proc and /sys, as any service has that has no image and names no capabilities; of such a one false is refused: say which capabilities are kept. With an image the default is false, as in Kubernetes"), yes("true: every capability and device, nothing protected; otherwise the runtime's usual capabilities (CapabilityBoundingSet=), DevicePolicy=closed, ProtectKernelTunables=, ProtectControlGroups=")),
		row(s+"capabilities", yes("bounding set of the process: the runtime's usual ones with add and drop applied; without this field the usual ones with an image, else all, as a host service needs"), yes("CapabilityBoundingSet=: the usual ones of cri-o with add and drop applied. As under Kubernetes a user other than root has them only through file capabilities, or `garboard.local/ambient-capabilities`")),
		row(s+"allowPrivilegeEscalation", yes("false: no_new_privs"), yes("false: NoNewPrivileges=")),
		row(s+"readOnlyRootFilesystem", yes("true is what a node's root is, and false is refused: it cannot be made writable. With an image true leaves out the layer for what is written"), yes("true: ProtectSystem=strict, with the container's writable volumes excepted (ReadWritePaths=)")),
		row(s+"procMount", yes("Default only"), yes("Default only")),
		row(s+"seccompProfile", yes("seccomp(2), as the last thing before the program starts, in a program compiled when the image is built. RuntimeDefault: the profile that cri-o gives containers, for the service's capabilities; Localhost: localhostProfile is a file beside the manifest, in the form that container runtimes read, which must allow execve, and prlimit64 unless `garboard.local/limits` sets nofile; Unconfined: none. With privileged: true there is none, as under a runtime. Calls that are not the architecture's own (of 32 bits, x32) end the program"), yes("RuntimeDefault: SystemCallFilter=@system-service with EPERM, which is near the runtimes' list but not the same; Unconfined: none; Localhost is refused: a profile in JSON cannot be a SystemCallFilter=")),
		row(s+"appArmorProfile", yes("Unconfined only: the kernel of the node has no profiles"), yes("Localhost: AppArmorProfile=; Unconfined: none; RuntimeDefault is refused: there is no runtime to have one")),
		row(s+"seLinuxOptions", no("the node has no SELinux policy; leave it out"), yes("SELinuxContext=; all four parts are needed")),
		both(s+"windowsOptions", no("this is Linux; a user by name is the annotation `garboard.local/user`")),
	}
}

func initContainerEntries() []Entry {
	const i = initContainers
	return []Entry{
		row(i+".name", yes("run in order to success before the containers; one that fails for good blocks them"), yes("a oneshot unit (RemainAfterExit=) that the next ones and the containers require and come after; one that fails for good blocks them")),
		row(i+".restartPolicy", yes("Always makes it a sidecar: started in its place, it stays and is always restarted; the next wait until it has started (postStart, startupProbe), without a limit. It ends after the containers, the last one first: in a shutdown, and when they have all ended. Other values are a container's own policy"), yes("Always makes it a sidecar: started in its place, it stays, the next wait for its start (startupProbe), and it ends after the containers; other values are a container's own policy")),
		both(i+".readinessProbe", yes("of sidecars; others have none in Kubernetes either")),
		both(i+".livenessProbe", yes("of sidecars; others have none in Kubernetes either")),
		both(i+".startupProbe", yes("of sidecars; others have none in Kubernetes either")),
		both(i+".lifecycle", yes("of sidecars; others have none in Kubernetes either")),
	}
}
