// Package storecheck has tests of the check of the image store that cri-o runs
// after an unclean stop, as the component's patches leave it.
package storecheck
