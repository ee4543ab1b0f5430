// Package chaos cuts the power of nodes at random moments, kills their
// processes and presses their power button, and says what was lost.
//
// One disk goes through a chain of boots. Each boot finds out whether what
// boots before it had reported is still there and whole, with no network; then
// it pulls images from a registry on this machine's loopback, has the kubelet
// run them, and is ended at a moment that the seed decides. The disk is package
// powercut's, so that what no flush had confirmed is lost, or half lost.
//
// What counts as lost: an image that the runtime reported as pulled and that is
// gone or not what was pushed, file by file; an image that nobody promised but
// that is listed and damaged; a static pod that does not run again; a file
// system that its journal does not make clean; a data partition that is not
// used; a node that does not come back, or not down.
//
// The guest's half is images/chaos; recipes/chaos.yaml is the node.
package chaos
