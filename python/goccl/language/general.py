"""The program in the making as text."""

from .program import current

__all__ = ["JSON"]


def JSON() -> str:
    """The execution plan of the program of the innermost ``with CollectiveProgram(…)``, as JSON text."""
    return current().to_json()
