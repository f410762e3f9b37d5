"""Moves memory to and fro where a seccomp filter forbids move_pages(2), as in containers: the agent at
the usual socket does it. Run in the lab, on two nodes; see tests/lab_python.rs."""

import ctypes
import struct

import nodeward

MOVE_PAGES = 279  # of x86-64, as the lab
MIB = 1 << 20


def forbid(number: int) -> None:
    """Makes a system call fail with EPERM from now on."""
    load, equal, fail, allow = (0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)
    lines = [load, equal, fail, allow]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(38, 1, 0, 0, 0) == 0, ctypes.get_errno()  # PR_SET_NO_NEW_PRIVS
    assert prctl(22, 2, program) == 0, ctypes.get_errno()  # PR_SET_SECCOMP


def main() -> None:
    data = bytearray(b"\1") * (8 * MIB)
    forbid(MOVE_PAGES)
    for node in [1, 0, 1]:
        report = nodeward.migrate(data, node)
        assert report.mover == "agent", report
        assert report.moved + report.already_there >= 7 * MIB, report
    assert report.moved > 0, report
    homed = nodeward.rehome(0)
    assert homed.mover == "agent" and homed.moved >= 7 * MIB, homed
    assert data == b"\1" * (8 * MIB)
    print(f"moved by the agent: {report.moved >> 20} MiB, then home {homed.moved >> 20} MiB")


main()
