"""What torch calls when it is imported (entry point torch.backends): the name "goccl" becomes a backend, "GOCCL" one of
symmetric memory, and nothing else is loaded."""

from typing import Any


def autoload() -> None:
    """Registers a backend that loads goccl.torch when a process group is made."""
    try:
        import torch.distributed as dist
        from torch._C import _distributed_c10d as c10d

        if not dist.is_available() or "goccl" in dist.Backend.backend_list:
            return

        def create(*arguments: Any) -> Any:
            from goccl.torch.backend import create

            return create(*arguments)

        symmetric_memory()
        extended = hasattr(c10d.Backend, "memory_stats")  # as goccl.torch._named.BACKEND
        dist.Backend.register_backend("goccl", create, extended_api=extended, devices=["cpu", "cuda"])
    except Exception:  # importing torch must not fail because of this
        pass


def symmetric_memory() -> None:
    """Lets torch.distributed._symmetric_memory.set_backend know "GOCCL", whose allocator is made when it is named."""
    from torch._C._distributed_c10d import _SymmetricMemory

    known = _SymmetricMemory.set_backend

    def set_backend(name: str) -> None:
        if name == "GOCCL":
            from goccl.torch.symmetric_memory import register

            register()
        known(name)

    if not hasattr(known, "goccl"):
        set_backend.goccl = True  # type: ignore[attr-defined]
        _SymmetricMemory.set_backend = staticmethod(set_backend)
