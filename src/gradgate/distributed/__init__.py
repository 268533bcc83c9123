"""Train one model in many processes: check that copies stay equal, and handle shards of tensors."""
