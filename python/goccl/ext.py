"""Names under their place in MSCCL++."""

from .collection import AlgorithmCollection, AlgorithmCollectionBuilder

__all__ = ["AlgorithmCollection", "AlgorithmCollectionBuilder"]
