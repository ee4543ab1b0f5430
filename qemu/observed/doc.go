// Package observed compares what the same pods see and do in three worlds: under a
// kubelet and a container runtime, as systemd units, and as services of a node's
// PID 1. The guests (images/observer) print what they saw; here it becomes a table of
// observations, of which each that differs must be explained.
package observed
