"""TensorBoard's writer is not part of this library: importing this module says what to use."""

raise ImportError(
    "torch.utils.tensorboard is not supported: use SummaryWriter of the package tensorboardX: it takes numbers and "
    "NumPy arrays"
)
