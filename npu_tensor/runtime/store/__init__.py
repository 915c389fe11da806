"""Compiled kernels: requests, the cache on disk, kernel directories, packs, builds in the background."""
