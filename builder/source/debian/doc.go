// Package debian is the Debian archive as a source of the build: packages are
// resolved, fetched and read, and each step is verified by the one before it.
//
//	keys/*.asc -> InRelease -> Packages.xz -> .deb -> files
//
// The archive's keys are embedded. InRelease must be signed by one of them, be
// neither expired nor of another suite; Packages must have the sha256 that
// InRelease states, and each .deb the one that Packages (or garboard.lock, which
// was written from it) states. So it does not matter from which mirror a byte came.
//
// Relations and versions mean what Debian Policy chapters 5 and 7 say. Recommends,
// Conflicts and Breaks are not looked at: files are taken out of packages, the
// packages are never installed together and their maintainer scripts never run.
package debian
