"""Element types and operators under nccl4py's names."""

from typing import Final

from .._types import DataType, ReduceOp

__all__ = ["INT8", "CHAR", "UINT8", "INT32", "INT", "UINT32", "INT64", "UINT64", "FLOAT16", "HALF", "FLOAT32", "FLOAT",
           "FLOAT64", "DOUBLE", "BFLOAT16", "FLOAT8E4M3", "FLOAT8E5M2", "SUM", "PROD", "MAX", "MIN", "AVG", "DataType",
           "ReduceOp", "NcclDataType", "NcclRedOp"]

NcclDataType = DataType
NcclRedOp = ReduceOp
INT8: Final = DataType.int8
CHAR: Final = DataType.int8
UINT8: Final = DataType.uint8
INT32: Final = DataType.int32
INT: Final = DataType.int32
UINT32: Final = DataType.uint32
INT64: Final = DataType.int64
UINT64: Final = DataType.uint64
FLOAT16: Final = DataType.float16
HALF: Final = DataType.float16
FLOAT32: Final = DataType.float32
FLOAT: Final = DataType.float32
FLOAT64: Final = DataType.float64
DOUBLE: Final = DataType.float64
BFLOAT16: Final = DataType.bfloat16
FLOAT8E4M3: Final = DataType.float8_e4m3
FLOAT8E5M2: Final = DataType.float8_e5m2
SUM: Final = ReduceOp.SUM
PROD: Final = ReduceOp.PROD
MAX: Final = ReduceOp.MAX
MIN: Final = ReduceOp.MIN
AVG: Final = ReduceOp.AVG
