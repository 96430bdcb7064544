"""What torch calls when it is imported (entry point torch.backends): the name "goccl" becomes a backend, and nothing
else is loaded."""

from typing import Any


def autoload() -> None:
    """Registers a backend that loads goccl.torch when a process group is made."""
    try:
        import torch.distributed as dist

        if not dist.is_available() or "goccl" in dist.Backend.backend_list:
            return

        def create(store: Any, rank: int, size: int, timeout: Any) -> Any:
            from goccl.torch.backend import ProcessGroupGoccl

            return ProcessGroupGoccl(store, rank, size, timeout)

        dist.Backend.register_backend("goccl", create, devices=["cpu", "cuda"])
    except Exception:  # importing torch must not fail because of this
        pass
