"""What differs where many processes train one model: copies that must stay equal, and shards of tensors."""

from gradgate.distributed.replicas import Replicas
from gradgate.distributed.shards import all_finite, local

__all__ = ["Replicas", "all_finite", "local"]
