// Package observed compares what the same pods see and do in two worlds: under a kubelet
// and a container runtime, and as systemd units. The guests (images/observer) print what
// they saw; here it becomes a table of observations, of which each that differs must be
// explained.
package observed
