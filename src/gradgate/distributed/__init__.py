"""Many processes that train one model: copies that must stay equal, and shards of tensors."""
