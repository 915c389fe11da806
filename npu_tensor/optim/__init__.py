"""Optimizers with PyTorch's names: SGD, Adam, AdamW, RMSprop. Learning rate schedules are in `lr_scheduler`."""

from npu_tensor.optim import lr_scheduler
from npu_tensor.optim.optimizer import Optimizer
from npu_tensor.optim.update_rules import SGD, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
