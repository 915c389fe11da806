"""Compiled kernels: requests, the cache on disk, ready kernels, packs, builds in the background."""
