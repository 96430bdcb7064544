"""Names under their place in MSCCL++."""

from .algorithm import AlgorithmCollection, AlgorithmCollectionBuilder

__all__ = ["AlgorithmCollection", "AlgorithmCollectionBuilder"]
