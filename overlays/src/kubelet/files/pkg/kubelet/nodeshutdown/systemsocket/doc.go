// Package systemsocket lets the node shutdown manager take its shutdown lock
// from, and hear of a shutdown through, the system socket of a Garboard node's
// PID 1, where other nodes have systemd-logind and D-Bus.
package systemsocket
