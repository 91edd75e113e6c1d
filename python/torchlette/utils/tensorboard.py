"""TensorBoard's writer is not part of this library: importing this module raises with the alternative."""

raise ImportError(
    "torch.utils.tensorboard is not supported: use SummaryWriter of the package tensorboardX: it takes numbers and "
    "NumPy arrays"
)
