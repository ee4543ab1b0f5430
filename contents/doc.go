// Package contents says what is on a running node and why: the files of the
// image, which the manifest lists, and what PID 1, the runtime and the kubelet
// add at boot. Compare holds what somebody saw of a node against that, and
// Document writes docs/node-contents.md from the same lists.
package contents
