"""vLLM's platform of NVIDIA GPUs, which makes goccl's communicators."""

from vllm.platforms.cuda import CudaPlatform


class Platform(CudaPlatform):  # type: ignore[misc]
    """vLLM's own platform with another class of communicators."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """The class of the communicators of vLLM's groups."""
        return "goccl.vllm.communicator.Communicator"
