"""Common parts of simulated and real NPUs: kernels, their names, packing, cost and launches."""
