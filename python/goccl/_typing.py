"""What functions take as buffers, streams and devices, for type checkers."""

from typing import Any, Protocol, Union


class SupportsDLPack(Protocol):
    """A torch tensor, a numpy or cupy array…"""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


class SupportsArrayInterface(Protocol):
    """Memory of the host."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class SupportsCudaArrayInterface(Protocol):
    """Memory of a GPU."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


class TorchStream(Protocol):
    """torch.cuda.Stream, goccl.Stream."""

    @property
    def cuda_stream(self) -> int: ...


class CupyStream(Protocol):
    """cupy.cuda.Stream."""

    @property
    def ptr(self) -> int: ...


class SupportsCudaStream(Protocol):
    """cuda.core.Stream."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


BytesLike = Union[bytes, bytearray, memoryview]
# Contiguous, writable memory. A torch tensor of the host has all of torch's interfaces.
BufferSpec = Union[SupportsDLPack, SupportsArrayInterface, SupportsCudaArrayInterface, bytearray, memoryview]
# A compute capability: (9, 0), or "sm_90".
Arch = Union[tuple[int, int], str]
# None is the default stream; on the host device the communicator's own, for which the call waits.
StreamSpec = Union[int, TorchStream, CupyStream, SupportsCudaStream, None]
