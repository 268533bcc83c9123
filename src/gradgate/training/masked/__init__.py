"""Pretrain adapters by filling in masked words."""
