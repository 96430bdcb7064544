// Element types, operators and packets by the names that programs for MSCCL++ use.
#pragma once

namespace goccl {

// DataType has MSCCL++'s numbers.
enum class DataType {
  INT32,
  UINT32,
  FLOAT16,
  FLOAT32,
  BFLOAT16,
  FLOAT8_E4M3FN,
  FLOAT8_E4M3FNUZ,
  FLOAT8_E5M2,
  FLOAT8_E5M2FNUZ,
  UINT8,
  FLOAT8_E4M3B15,
  AUTO = 255
};
enum class PacketType { LL8, LL16 };
enum ReduceOp { SUM = 0, MIN = 3, NOP = 255 };

}  // namespace goccl
