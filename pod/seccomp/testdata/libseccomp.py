#!/usr/bin/env python3
"""Writes the programs that libseccomp makes of profiles, for TestLibseccomp.

It reads a profile as cri-o does and gives libseccomp its rules as crun and runc
do, knowing nothing of package seccomp. In this directory, with libseccomp 2.6.0:

  LIBSECCOMP=libseccomp.so.2.6.0 python3 libseccomp.py
"""

import ctypes
import errno
import json
import os

L = ctypes.CDLL(os.environ.get("LIBSECCOMP", "libseccomp.so.2"))


class Cmp(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


L.seccomp_init.restype = ctypes.c_void_p
L.seccomp_init.argtypes = [ctypes.c_uint32]
for name in "seccomp_arch_add", "seccomp_arch_remove":
    getattr(L, name).argtypes = [ctypes.c_void_p, ctypes.c_uint32]
L.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Cmp)]
L.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]

OPS = dict(NE=1, LT=2, LE=3, EQ=4, GE=5, GT=6, MASKED_EQ=7)
ARCHES = dict(amd64=0xC000003E, arm64=0xC00000B7)
ACTIONS = dict(KILL=0, KILL_THREAD=0, KILL_PROCESS=0x80000000, TRAP=0x30000, LOG=0x7FFC0000, ALLOW=0x7FFF0000)


def action(name, number, word):
    name = name.removeprefix("SCMP_ACT_")
    if name != "ERRNO":
        return ACTIONS[name]
    if word:
        number = int(word) if word.isdigit() else getattr(errno, word)
    return 0x50000 | (errno.EPERM if number is None else number)


def counts(rule, arch, caps):
    has = lambda c: caps is None or c in caps
    inc, exc = rule.get("includes") or {}, rule.get("excludes") or {}
    return not (
        arch in exc.get("arches", [])
        or any(has(c) for c in exc.get("caps", []))
        or (inc.get("arches") and arch not in inc["arches"])
        or any(not has(c) for c in inc.get("caps", []))
    )


def build(profile, arch, caps, out):
    default = action(profile["defaultAction"], profile.get("defaultErrnoRet"), profile.get("defaultErrno"))
    ctx = L.seccomp_init(default)
    for name, token in ARCHES.items():
        (L.seccomp_arch_add if name == arch else L.seccomp_arch_remove)(ctx, token)
    for rule in profile["syscalls"]:
        act = action(rule["action"], rule.get("errnoRet"), rule.get("errno"))
        if act == default or not counts(rule, arch, caps):
            continue
        args = [Cmp(a["index"], OPS[a["op"].removeprefix("SCMP_CMP_")], a["value"], a.get("valueTwo", 0)) for a in rule.get("args") or []]
        several = len({a.arg for a in args}) < len(args)
        for name in rule.get("names") or [rule["name"]]:
            number = L.seccomp_syscall_resolve_name(name.encode())
            if number == -1:
                print(f"{out}: libseccomp does not know {name}")
                continue
            for part in [[a] for a in args] if several else [args]:
                rc = L.seccomp_rule_add_array(ctx, act, number, len(part), (Cmp * max(1, len(part)))(*part))
                if rc:
                    raise SystemExit(f"{out}: {name}: {os.strerror(-rc)}")
    fd = os.open(out, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    if L.seccomp_export_bpf(ctx, fd):
        raise SystemExit(f"{out}: export failed")
    os.close(fd)


L.seccomp_syscall_resolve_num_arch.argtypes = [ctypes.c_uint32, ctypes.c_int]
L.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p

for arch, token in ARCHES.items():
    with open(f"libseccomp/calls-{arch}.txt", "w") as f:
        for number in range(1000):
            name = L.seccomp_syscall_resolve_num_arch(token, number)
            if name:
                print(number, ctypes.string_at(name).decode(), file=f)

SETS = dict(none=[], all=None, some=["CAP_AUDIT_WRITE", "CAP_SYS_PTRACE", "CAP_BPF"])

for arch in ARCHES:
    for name, caps in SETS.items():
        with open("../default.json") as f:
            build(json.load(f)["profile"], arch, caps, f"libseccomp/default-{arch}-{name}.bpf")
    with open("comparisons.json") as f:
        build(json.load(f), arch, [], f"libseccomp/comparisons-{arch}-none.bpf")
