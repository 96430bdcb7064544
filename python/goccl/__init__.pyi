"""What the package re-exports, for type checkers; tests hold it to __init__.py."""

from .errors import Aborted as Aborted
from .errors import Closed as Closed
from .errors import CudaError as CudaError
from .errors import ErrorCode as ErrorCode
from .errors import Forked as Forked
from .errors import GocclError as GocclError
from .errors import InProgress as InProgress
from .errors import InternalError as InternalError
from .errors import InvalidArgument as InvalidArgument
from .errors import InvalidUsage as InvalidUsage
from .errors import Mismatch as Mismatch
from .errors import OutOfMemory as OutOfMemory
from .errors import PeerDead as PeerDead
from .errors import SysError as SysError
from .errors import Timeout as Timeout
from .errors import Unsupported as Unsupported
from ._types import DataType as DataType
from ._types import DeviceType as DeviceType
from ._types import PacketType as PacketType
from ._types import ReduceOp as ReduceOp
from ._types import Transport as Transport
from ._types import TransportFlags as TransportFlags
from .device import Device as Device
from .device import GpuBuffer as GpuBuffer
from .device import GpuBufferGranularity as GpuBufferGranularity
from .device import RawGpuBuffer as RawGpuBuffer
from .device import Stream as Stream
from .device import current_device as current_device
from .device import device_count as device_count
from .device import is_bulk_supported as is_bulk_supported
from .bootstrap import Bootstrap as Bootstrap
from .bootstrap import TcpBootstrap as TcpBootstrap
from .bootstrap import UniqueId as UniqueId
from .bootstrap import mpi_world as mpi_world
from .communicator import Communicator as Communicator
from .connection import Connection as Connection
from .context import Context as Context
from .connection import Endpoint as Endpoint
from .connection import EndpointConfig as EndpointConfig
from .connection import EndpointConfigIb as EndpointConfigIb
from .connection import IbMode as IbMode
from .communicator import Future as Future
from .communicator import Host2DeviceSemaphore as Host2DeviceSemaphore
from .communicator import Host2HostSemaphore as Host2HostSemaphore
from .communicator import MemoryDevice2DeviceSemaphore as MemoryDevice2DeviceSemaphore
from .connection import RegisteredMemory as RegisteredMemory
from .semaphore import Semaphore as Semaphore
from .semaphore import SemaphoreStub as SemaphoreStub
from .channel import BaseMemoryChannel as BaseMemoryChannel
from .channel import MemoryChannel as MemoryChannel
from .channel import NvlsConnection as NvlsConnection
from .channel import SwitchChannel as SwitchChannel
from .channel import connect_nvls_collective as connect_nvls_collective
from .fifo import Fifo as Fifo
from .fifo import ProxyTrigger as ProxyTrigger
from .proxy import BasePortChannel as BasePortChannel
from .proxy import PortChannel as PortChannel
from .proxy import ProxyChannel as ProxyChannel
from .proxy import ProxyService as ProxyService
from .proxy import SimpleProxyChannel as SimpleProxyChannel
from .comm import CommGroup as CommGroup
from .algorithm import Algorithm as Algorithm
from .algorithm import AlgorithmBuilder as AlgorithmBuilder
from .collection import AlgorithmCollection as AlgorithmCollection
from .collection import AlgorithmCollectionBuilder as AlgorithmCollectionBuilder
from .collection import CollectiveRequest as CollectiveRequest
from .executor import ExecutionPlan as ExecutionPlan
from .executor import Executor as Executor
from .dsl import compile as compile
from .native import NativeAlgorithm as NativeAlgorithm
from .native import compile_native as compile_native
from ._env import Env as Env
from ._env import env as env
from ._alias import install_alias as install_alias
from .language.spec import AlgoSpec as AlgoSpec
from .language.spec import ReplicationPolicy as ReplicationPolicy

__version__: str
version: dict[str, str]

def get_lib() -> str: ...
def get_include() -> str: ...
def is_nvls_supported() -> bool: ...
