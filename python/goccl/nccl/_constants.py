"""Element types and operators under nccl4py's names."""

from .._types import DataType, ReduceOp

__all__ = ["INT8", "CHAR", "UINT8", "INT32", "INT", "UINT32", "INT64", "UINT64", "FLOAT16", "HALF", "FLOAT32", "FLOAT", "FLOAT64", "DOUBLE", "BFLOAT16",
           "FLOAT8E4M3", "FLOAT8E5M2", "SUM", "PROD", "MAX", "MIN", "AVG", "DataType", "ReduceOp", "NcclDataType", "NcclRedOp"]

NcclDataType, NcclRedOp = DataType, ReduceOp
INT8 = CHAR = DataType.int8
UINT8 = DataType.uint8
INT32 = INT = DataType.int32
UINT32 = DataType.uint32
INT64 = DataType.int64
UINT64 = DataType.uint64
FLOAT16 = HALF = DataType.float16
FLOAT32 = FLOAT = DataType.float32
FLOAT64 = DOUBLE = DataType.float64
BFLOAT16 = DataType.bfloat16
FLOAT8E4M3 = DataType.float8_e4m3
FLOAT8E5M2 = DataType.float8_e5m2
SUM, PROD, MAX, MIN, AVG = ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.AVG
