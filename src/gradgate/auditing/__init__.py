"""Observe any training that uses torch, and report which weights really learned."""
