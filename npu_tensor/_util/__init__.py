"""Helpers without tensors: locks and forks, interrupts, units, warnings."""
