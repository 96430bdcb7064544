// Prints, with NVIDIA's headers of one version of NCCL, the layouts of the device API as device_layouts.txt has them:
//
//   g++ -I.tools/nccl/VERSION/include -ICUDA/include capi/testdata/nvidia_layouts.cc
#include <nccl.h>
#include <nccl_device.h>

#include <cstddef>
#include <cstdio>

#define SIZE(s) printf(#s " %zu\n", sizeof(struct s));
#define AT(s, f) printf(#s "." #f " %zu\n", offsetof(struct s, f));
#define V NCCL_VERSION_CODE

int main() {
  printf("version %d\n", V);
  SIZE(ncclDevComm)
#if V >= 23003
  AT(ncclDevComm, magic) AT(ncclDevComm, version)
#endif
  AT(ncclDevComm, rank) AT(ncclDevComm, nRanks) AT(ncclDevComm, nRanks_rcp32)
  AT(ncclDevComm, lsaRank) AT(ncclDevComm, lsaSize) AT(ncclDevComm, lsaSize_rcp32)
  AT(ncclDevComm, windowTable) AT(ncclDevComm, resourceWindow)
  AT(ncclDevComm, resourceWindow_inlined.lsaFlatBase) AT(ncclDevComm, resourceWindow_inlined.stride4G)
  AT(ncclDevComm, lsaBarrier)
#if V >= 22907
  AT(ncclDevComm, abortFlag)
#endif
#if V >= 23003
  AT(ncclDevComm, hybridLsaBarrier)
#endif
  SIZE(ncclWindow_vidmem)
  AT(ncclWindow_vidmem, lsaFlatBase) AT(ncclWindow_vidmem, lsaRank) AT(ncclWindow_vidmem, worldRank)
  AT(ncclWindow_vidmem, stride4G) AT(ncclWindow_vidmem, mcOffset4K)
#if V >= 23004
  AT(ncclWindow_vidmem, numSegments)
#endif
  SIZE(ncclDevCommWindowTable) AT(ncclDevCommWindowTable, next)
  SIZE(ncclDevCommRequirements)
  AT(ncclDevCommRequirements, resourceRequirementsList) AT(ncclDevCommRequirements, teamRequirementsList)
  AT(ncclDevCommRequirements, lsaMultimem) AT(ncclDevCommRequirements, lsaBarrierCount)
#if V >= 22807
  AT(ncclDevCommRequirements, barrierCount) AT(ncclDevCommRequirements, railGinBarrierCount)
  AT(ncclDevCommRequirements, ginForceEnable) AT(ncclDevCommRequirements, ginSignalCount)
  AT(ncclDevCommRequirements, ginCounterCount)
#endif
#if V >= 22902
  AT(ncclDevCommRequirements, magic) AT(ncclDevCommRequirements, version)
#endif
#if V >= 22907
  AT(ncclDevCommRequirements, ginConnectionType)
#endif
#if V >= 23003
  AT(ncclDevCommRequirements, worldGinBarrierCount)
#endif
#if V >= 23102
  AT(ncclDevCommRequirements, useRuntimeVersion) AT(ncclDevCommRequirements, cftCaps)
  AT(ncclDevCommRequirements, cftBarrierCount)
#endif
  SIZE(ncclDevResourceRequirements)
  AT(ncclDevResourceRequirements, bufferSize) AT(ncclDevResourceRequirements, bufferAlign)
  AT(ncclDevResourceRequirements, outBufferHandle)
#if V >= 22807
  AT(ncclDevResourceRequirements, ginSignalCount) AT(ncclDevResourceRequirements, ginCounterCount)
  AT(ncclDevResourceRequirements, outGinSignalStart) AT(ncclDevResourceRequirements, outGinCounterStart)
#endif
  SIZE(ncclTeamRequirements) AT(ncclTeamRequirements, multimem) AT(ncclTeamRequirements, outMultimemHandle)
  SIZE(ncclLsaBarrierHandle) AT(ncclLsaBarrierHandle, bufHandle) AT(ncclLsaBarrierHandle, nBarriers)
  SIZE(ncclLLA2AHandle) AT(ncclLLA2AHandle, bufHandle) AT(ncclLLA2AHandle, nSlots)
  SIZE(ncclTeam)
}
