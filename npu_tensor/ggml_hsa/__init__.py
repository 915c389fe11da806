"""Kernels made before they are needed: configurations of kernels, generating, recording and packing them."""
