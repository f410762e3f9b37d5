"""Moves memory to and fro as a user without privileges whom a seccomp filter forbids move_pages(2), as
in containers: the agent does it. Run in the lab, on two nodes; see tests/lab_python.rs."""

import ctypes
import os
import struct

import nodeward

MOVE_PAGES = 279  # of x86-64, as the lab
USER = 1000
MIB = 1 << 20
PRCTL = ctypes.CDLL(None, use_errno=True).prctl


def become(user: int) -> None:
    """Gives up all privileges. The process stays one that its user may look at."""
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    assert PRCTL(4, 1) == 0, ctypes.get_errno()  # PR_SET_DUMPABLE


def forbid(number: int) -> None:
    """Makes a system call fail with EPERM from now on."""
    load, equal, fail, allow = (0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)
    lines = [load, equal, fail, allow]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
    assert PRCTL(38, 1, 0, 0, 0) == 0, ctypes.get_errno()  # PR_SET_NO_NEW_PRIVS
    assert PRCTL(22, 2, program) == 0, ctypes.get_errno()  # PR_SET_SECCOMP


def main() -> None:
    become(USER)
    data = bytearray(b"\1") * (8 * MIB)
    forbid(MOVE_PAGES)
    for node in [1, 0, 1]:
        report = nodeward.migrate(data, node)
        assert report.mover == "agent", report
        assert report.moved + report.already_there >= 7 * MIB, report
        told = nodeward.residency(data, exact=True)
        assert told[node] >= 7 * MIB and sum(told.values()) >= 8 * MIB, told
    assert report.moved > 0, report
    homed = nodeward.rehome(0)
    assert homed.mover == "agent" and homed.moved >= 7 * MIB, homed
    assert data == b"\1" * (8 * MIB)
    print(f"moved by the agent: {report.moved >> 20} MiB, then home {homed.moved >> 20} MiB")


main()
