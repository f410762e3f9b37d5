"""Exceptions. Their words are the library's: the cause, and what to do."""


class NodewardError(Exception):
    """Any error of nodeward. Nothing was done, unless the words say otherwise."""


class InvalidError(NodewardError, ValueError):
    """An argument that has no meaning, or memory that cannot be used: with gaps, or none at all."""


class UnknownNodeError(InvalidError):
    """No such node, or none with memory that this process may use."""


class DeviceError(NodewardError, LookupError):
    """No such device, or the firmware does not say where it is."""


class NoRoomError(NodewardError, MemoryError):
    """A node, or a pool, has no room."""


class UnsupportedError(NodewardError):
    """It does not work with this memory, or on this machine."""


class DeniedError(NodewardError, PermissionError):
    """A privilege is missing."""


class SystemCallError(NodewardError, OSError):
    """A system call failed, or /proc or /sys could not be read."""


class ForkedError(NodewardError, RuntimeError):
    """The array or pool belongs to the parent of this process."""


class AgentError(NodewardError):
    """The agent did not do what it was asked."""


class NoAgentError(AgentError, ConnectionError):
    """No agent answers at the socket, or it may not be used."""
