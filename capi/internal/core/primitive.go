package core

import "github.com/goccl/goccl/primitive"

// Functions of goccl_primitive.h that are functions and methods of package primitive, with the same parameters.
var (
	ContextError   = (*primitive.Context).Err
	ContextRecover = (*primitive.Context).Recover

	EndpointDeserialize     = primitive.DeserializeEndpoint
	ConnectionCreate        = (*primitive.Context).Connect
	ConnectionWrite         = (*primitive.Connection).Write
	ConnectionAtomicAdd     = (*primitive.Connection).AtomicAdd
	ConnectionUpdateAndSync = (*primitive.Connection).UpdateAndSync
	ConnectionFlush         = (*primitive.Connection).Flush
	MemoryDeserialize       = (*primitive.Context).DeserializeMemory

	SemaphoreStubCreate      = primitive.NewSemaphoreStub
	SemaphoreStubDeserialize = (*primitive.Context).DeserializeSemaphoreStub
	SemaphoreCreate          = primitive.NewSemaphore
	BaseMemoryChannelCreate  = primitive.NewBaseMemoryChannel
	FifoSize                 = (*primitive.Fifo).Size

	ProxyServiceStart           = (*primitive.ProxyService).Start
	ProxyServiceStop            = (*primitive.ProxyService).Stop
	ProxyServiceAddSemaphore    = (*primitive.ProxyService).AddSemaphore
	ProxyServiceBuildSemaphore  = (*primitive.ProxyService).BuildAndAddSemaphore
	ProxyServiceAddMemory       = (*primitive.ProxyService).AddMemory
	ProxyServiceRemoveSemaphore = (*primitive.ProxyService).RemoveSemaphore
	ProxyServiceRemoveMemory    = (*primitive.ProxyService).RemoveMemory
	BasePortChannelCreate       = (*primitive.ProxyService).BasePortChannel
	PortChannelCreate           = (*primitive.ProxyService).PortChannel

	CommunicatorConnectEndpoint = (*primitive.Communicator).ConnectEndpoint
	CommunicatorSendMemory      = (*primitive.Communicator).SendMemory
	CommunicatorRecvMemory      = (*primitive.Communicator).RecvMemory
	CommunicatorBuildSemaphore  = (*primitive.Communicator).BuildSemaphore
)
