package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// checkVersions has the node's own programs say what they are. The host compares
// the versions with the lock; that cri-o filters system calls is checked here.
// The programs are static, so they run from the node's root as they are.
func (g *guest) checkVersions() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	output := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, filepath.Join(g.host, args[0]), args[1:]...).Output()
		if err != nil {
			return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	kubelet, err := output("usr/bin/kubelet", "--version")
	if err != nil {
		return err
	}
	g.say("tester: version of kubelet: %s", strings.TrimPrefix(kubelet, "Kubernetes "))
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	name, err := runtimeProgram(all)
	if err != nil {
		return err
	}
	told, err := criVersion(ctx, runtimeSockets[name])
	if err != nil {
		return err
	}
	told = "v" + strings.TrimPrefix(told, "v")
	if name == "crio" {
		crio, err := output("usr/bin/crio", "version", "--json")
		if err != nil {
			return err
		}
		version, err := crioVersion(crio)
		if err != nil {
			return err
		}
		if told != "v"+version {
			return fmt.Errorf("crio says that it is v%s on its command line and %s over the CRI", version, told)
		}
	}
	g.say("tester: version of %s: %s", name, told)
	return nil
}

// crioVersion reads `crio version --json` and demands seccomp.
func crioVersion(text string) (string, error) {
	var v struct {
		Version        string `json:"version"`
		SeccompEnabled bool   `json:"seccompEnabled"`
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return "", fmt.Errorf("crio version: %w", err)
	}
	switch {
	case v.Version == "":
		return "", errors.New("crio version: it tells none")
	case !v.SeccompEnabled:
		return "", errors.New("crio version: seccomp is not enabled")
	}
	return v.Version, nil
}
