module github.com/seccomp/libseccomp-golang

go 1.22
