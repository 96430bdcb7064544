/* NCCL's host functions, one per line: NCCL_API(result, name, parameters), and NCCL_LACKS(feature, name, parameters)
 * for those that refuse, because goccl has no such feature. nccl.h declares its functions with this list, unsupported.c
 * defines those that refuse, and the test of exported symbols uses it. */

/* The library */
NCCL_API(ncclResult_t, ncclGetVersion, int *version)
NCCL_API(const char *, ncclGetErrorString, ncclResult_t result)
NCCL_API(const char *, ncclGetLastError, ncclComm_t comm)
NCCL_API(void, ncclResetDebugInit, void)

/* Communicators */
NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId *uniqueId)
NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
	ncclConfig_t *config)
NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t *newcomm, int nranks, int myrank, int nId,
	ncclUniqueId *commIds, ncclConfig_t *config)
NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t *comm, int ndev, const int *devlist)
NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
	ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId *uniqueId)
NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
	ncclComm_t *newcomm, ncclConfig_t *config)
NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm)
NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm)
NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm)
NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags)
NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags)
NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm)
NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *asyncError)
NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int *count)
NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int *device)
NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int *rank)
NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
NCCL_API(ncclResult_t, ncclCommQueryProperties, ncclComm_t comm, ncclCommProperties_t *props)

/* Memory */
NCCL_API(ncclResult_t, ncclMemAlloc, void **ptr, size_t size)
NCCL_API(ncclResult_t, ncclMemFree, void *ptr)
NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void *buff, size_t size, void **handle)
NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void *handle)
NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
	int winFlags)
NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win)
NCCL_API(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void **outUserPtr)

/* Operators */
NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
	ncclScalarResidence_t residence, ncclComm_t comm)
NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm)

/* Collectives */
NCCL_API(ncclResult_t, ncclReduce, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclBcast, void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	cudaStream_t stream)
NCCL_API(ncclResult_t, ncclBroadcast, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	int root, ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclAllReduce, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclReduceScatter, const void *sendbuff, void *recvbuff, size_t recvcount,
	ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclAllGather, const void *sendbuff, void *recvbuff, size_t sendcount,
	ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclAlltoAll, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclGather, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	int root, ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclScatter, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	int root, ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclSend, const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
	ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclRecv, void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	cudaStream_t stream)

/* The same with a configuration of the call; NULL: none. */
NCCL_API(ncclResult_t, ncclAllReduceConfig, const void *sendbuff, void *recvbuff, size_t count,
	ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
NCCL_API(ncclResult_t, ncclBroadcastConfig, const void *sendbuff, void *recvbuff, size_t count,
	ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
NCCL_API(ncclResult_t, ncclReduceConfig, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
NCCL_API(ncclResult_t, ncclAllGatherConfig, const void *sendbuff, void *recvbuff, size_t sendcount,
	ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
NCCL_API(ncclResult_t, ncclReduceScatterConfig, const void *sendbuff, void *recvbuff, size_t recvcount,
	ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
NCCL_API(ncclResult_t, ncclAlltoAllConfig, const void *sendbuff, void *recvbuff, size_t count,
	ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
NCCL_API(ncclResult_t, ncclGatherConfig, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)
NCCL_API(ncclResult_t, ncclScatterConfig, const void *sendbuff, void *recvbuff, size_t count,
	ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config)

/* All-to-all-v of VCCL (R × R matrices, relaybuff may be NULL) and of RCCL and MSCCL++ (arrays of R). */
NCCL_API(ncclResult_t, ncclAlltoAllv, const void *sendbuff, const size_t *sendcounts, const size_t *sdispls,
	void *recvbuff, const size_t *recvcounts, const size_t *rdispls, const void *relaybuff, ncclDataType_t datatype,
	ncclComm_t comm, cudaStream_t stream)
NCCL_API(ncclResult_t, ncclAllToAllv, const void *sendbuff, const size_t *sendcounts, const size_t *sdispls,
	void *recvbuff, const size_t *recvcounts, const size_t *rdispls, ncclDataType_t datatype, ncclComm_t comm,
	cudaStream_t stream)
/* The same as ncclAlltoAll, as RCCL and MSCCL++ spell it. */
NCCL_API(ncclResult_t, ncclAllToAll, const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	ncclComm_t comm, cudaStream_t stream)

/* Groups */
NCCL_API(ncclResult_t, ncclGroupStart, void)
NCCL_API(ncclResult_t, ncclGroupEnd, void)
NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t *simInfo)

/* One-sided operations, the device API and parameters. docs/nccl-migration.md lists those that refuse. */
NCCL_API(ncclResult_t, ncclPutSignal, const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
	ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
	cudaStream_t stream)
NCCL_API(ncclResult_t, ncclSignal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
	cudaStream_t stream)
NCCL_API(ncclResult_t, ncclWaitSignal, int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
	cudaStream_t stream)
NCCL_API(ncclResult_t, ncclDevCommCreate, ncclComm_t comm, const ncclDevCommRequirements_t *reqs,
	ncclDevComm_t *outDevComm)
NCCL_API(ncclResult_t, ncclDevCommDestroy, ncclComm_t comm, const ncclDevComm_t *devComm)
NCCL_API(ncclResult_t, ncclGetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset, void **outPtr)
NCCL_API(ncclResult_t, ncclGetMultimemDevicePointer, ncclWindow_t window, size_t offset,
	ncclMultimemHandle_t multimem, void **outPtr)
NCCL_API(ncclResult_t, ncclGetLsaDevicePointer, ncclWindow_t window, size_t offset, int lsaRank, void **outPtr)
NCCL_API(ncclResult_t, ncclGetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer, void **outPtr)
NCCL_LACKS(CFT, ncclGetCftDeviceLeInfo, ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam,
	uint32_t *leId, size_t *leOffset)
NCCL_LACKS(CFT, ncclGetPeerDeviceLeInfo, ncclWindow_t window, size_t offset, int peerWorld, uint32_t *leId,
	size_t *leOffset)
NCCL_LACKS(CFT, ncclGetMultimemDeviceLeInfo, ncclWindow_t window, size_t offset, uint32_t *leId,
	size_t *leOffset)
NCCL_API(ncclResult_t, ncclSetEncryption, const ncclEncryptionConfig_t *config)
NCCL_API(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam_t team, int nBarriers, void *outHandle,
	ncclDevResourceRequirements_t *outReq)
NCCL_LACKS(GIN, ncclGinBarrierCreateRequirement, ncclComm_t comm, ncclTeam_t team, int nBarriers,
	void *outHandle, ncclDevResourceRequirements_t *outReq)
NCCL_API(ncclResult_t, ncclLLA2ACreateRequirement, int nBlocks, int nSlots, void *outHandle,
	ncclDevResourceRequirements_t *outReq)
NCCL_LACKS(GIN, ncclGinOutboxCreateRequirement, int nBlocks, int sizeLog2, void *outHandle,
	ncclDevResourceRequirements_t *outReq)
NCCL_LACKS(GIN, ncclGinInboxA2ACreateRequirement, ncclTeam_t peers, int nBlocks, int sizeLog2,
	void *outHandle, ncclDevResourceRequirements_t *outReq)
NCCL_LACKS(PARAMS, ncclParamBind, ncclParamHandle_t *out, const char *key)
NCCL_LACKS(PARAMS, ncclParamGetI8, ncclParamHandle_t h, int8_t *out)
NCCL_LACKS(PARAMS, ncclParamGetI16, ncclParamHandle_t h, int16_t *out)
NCCL_LACKS(PARAMS, ncclParamGetI32, ncclParamHandle_t h, int32_t *out)
NCCL_LACKS(PARAMS, ncclParamGetI64, ncclParamHandle_t h, int64_t *out)
NCCL_LACKS(PARAMS, ncclParamGetU8, ncclParamHandle_t h, uint8_t *out)
NCCL_LACKS(PARAMS, ncclParamGetU16, ncclParamHandle_t h, uint16_t *out)
NCCL_LACKS(PARAMS, ncclParamGetU32, ncclParamHandle_t h, uint32_t *out)
NCCL_LACKS(PARAMS, ncclParamGetU64, ncclParamHandle_t h, uint64_t *out)
NCCL_LACKS(PARAMS, ncclParamGetStr, ncclParamHandle_t h, const char **out)
NCCL_LACKS(PARAMS, ncclParamGet, ncclParamHandle_t h, void *out, int maxLen, int *len)
NCCL_LACKS(PARAMS, ncclParamGetParameter, const char *key, const char **value, int *valueLen)
NCCL_LACKS(PARAMS, ncclParamGetAllParameterKeys, const char ***table, int *tableLen)

/* The rest of the host half of the device API, which has no result to report an error: all ranks are one team. */
NCCL_API(void, ncclParamDumpAll, void)
NCCL_API(int, ncclLLA2ACalcSlots, int maxElts, int maxEltSize)
NCCL_API(ncclTeam_t, ncclTeamWorld, ncclComm_t comm)
NCCL_API(ncclTeam_t, ncclTeamLsa, ncclComm_t comm)
NCCL_API(ncclTeam_t, ncclTeamRail, ncclComm_t comm)
NCCL_API(ncclTeam_t, ncclTeamCft, ncclComm_t comm, ncclCftTeamMode_t mode)
NCCL_API(ncclTeam_t, ncclTeamCftMultimem, ncclComm_t comm)
NCCL_API(int, ncclTeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank)
NCCL_API(int, ncclTeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank)
