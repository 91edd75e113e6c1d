"""The package ``torch``: importing it gives ``torchlette.torch``, under PyTorch's name."""

import sys
from pathlib import Path

_beside = [p.name for p in Path(__file__).parent.iterdir() if p.name in ("lib", "_tensor.py", "_C")]
if _beside:
    raise ImportError(
        f"torchlette-as-torch: PyTorch lies in the same folder, {Path(__file__).parent} (found {_beside[0]}), and both "
        f"provide the package torch: uninstall torchlette-as-torch and torch, then install the one you want"
    )

from torchlette import as_torch  # noqa: E402

as_torch.activate()
# The import system gives what is in sys.modules after this file has run.
as_torch.TorchFinder.exec_module(sys.modules["torch"])
