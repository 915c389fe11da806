"""PyTorch is the oracle of most tests here; modules that need it are skipped, and say so, where it is missing."""

try:
    import torch
except ImportError:
    pass
else:
    # The operands are small, and threads of two libraries would fight for the cores.
    torch.set_num_threads(1)
