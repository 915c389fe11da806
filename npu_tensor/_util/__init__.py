"""Helpers that know nothing of tensors: locks and forks, interrupts, units of text, warnings, logs."""
