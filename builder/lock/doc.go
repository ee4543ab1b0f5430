// Package lock reads, writes and renews garboard.lock: every input of a build
// by name, version and hash, so that a node is a function of recipe and lock.
//
// What it holds and why, and what happens when Debian supersedes a pinned
// package, is told in docs/decisions/0001-lock-and-point-releases.md.
package lock
