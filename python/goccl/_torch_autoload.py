"""What torch calls when it is imported (entry point torch.backends): the name "goccl" becomes a backend, and nothing
else is loaded."""

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

        extended = hasattr(c10d.Backend, "memory_stats")  # as goccl.torch._named.BACKEND
        dist.Backend.register_backend("goccl", create, extended_api=extended, devices=["cpu", "cuda"])
    except Exception:  # importing torch must not fail because of this
        pass
