"""Under autocast every operator of PyTorch's database gives PyTorch's dtype.

On GPUs PyTorch is asked on fake CUDA tensors, which have dtypes and no values.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import database
import pytest
import torch
from oracle import dtype_name
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.autocast_test_lists import AutocastTestLists
from torch.utils._pytree import tree_map

import torchlette
import torchlette.torch as facade

#: The entries whose dtypes autocast changes on a device, and some that it leaves alone.
LABELS = (
    "__rdiv__ __rmatmul__ __rpow__ acos add addbmm addcdiv addcmul addmm addmv addr asin atan2 baddbmm bmm cat "
    "cdist cholesky_inverse cholesky_solve chunk corrcoef cosh cov cross cumprod cumsum cumulative_trapezoid dist "
    "dot einsum erfinv exp expm1 geqrf index_put linalg.cholesky linalg.cholesky_ex linalg.cond linalg.eigh "
    "linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex linalg.lstsq linalg.matrix_norm "
    "linalg.matrix_power linalg.matrix_rank linalg.matrix_rank.hermitian linalg.matrix_sqrth linalg.multi_dot "
    "linalg.norm linalg.norm.subgradients_at_zero linalg.pinv linalg.pinv.hermitian linalg.polar linalg.qr "
    "linalg.solve linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve linalg.vecdot linalg.vector_norm "
    "log log10 log1p log2 log_softmax logaddexp logsumexp lu lu_solve masked.mean masked.norm masked.softmax matmul "
    "mean mm mv nanquantile native_layer_norm nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool3d "
    "nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.batch_norm nn.functional.bilinear "
    "nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.conv1d "
    "nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d "
    "nn.functional.conv_transpose3d nn.functional.cosine_embedding_loss nn.functional.cosine_similarity "
    "nn.functional.cross_entropy nn.functional.ctc_loss nn.functional.embedding nn.functional.fractional_max_pool2d "
    "nn.functional.fractional_max_pool3d nn.functional.gaussian_nll_loss nn.functional.gelu "
    "nn.functional.grid_sample nn.functional.group_norm nn.functional.hinge_embedding_loss nn.functional.huber_loss "
    "nn.functional.interpolate.bicubic nn.functional.interpolate.bilinear nn.functional.interpolate.linear "
    "nn.functional.interpolate.nearest nn.functional.interpolate.nearest-exact nn.functional.interpolate.trilinear "
    "nn.functional.kl_div nn.functional.l1_loss nn.functional.layer_norm nn.functional.linear "
    "nn.functional.linear_cross_entropy nn.functional.local_response_norm nn.functional.margin_ranking_loss "
    "nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.max_unpool1d nn.functional.max_unpool1d.grad "
    "nn.functional.max_unpool2d nn.functional.max_unpool2d.grad nn.functional.max_unpool3d "
    "nn.functional.max_unpool3d.grad nn.functional.mse_loss nn.functional.multi_head_attention_forward "
    "nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss "
    "nn.functional.nll_loss nn.functional.normalize nn.functional.pad.circular nn.functional.pad.reflect "
    "nn.functional.pad.replicate nn.functional.pad.replicate_negative nn.functional.pairwise_distance "
    "nn.functional.pdist nn.functional.poisson_nll_loss nn.functional.prelu nn.functional.rms_norm "
    "nn.functional.scaled_dot_product_attention nn.functional.smooth_l1_loss nn.functional.soft_margin_loss "
    "nn.functional.softmin nn.functional.softplus nn.functional.triplet_margin_loss "
    "nn.functional.triplet_margin_with_distance_loss nn.functional.upsample_bilinear nn.functional.upsample_nearest "
    "norm norm.fro norm.inf ormqr pinverse pow prod quantile reciprocal renorm rsqrt scatter_add sinh softmax "
    "square stack std sum sum_to_size svd tan tensordot trace trapezoid trapz triangular_solve vdot "
)
ENTRIES = {label: op for op in database.op_db if (label := database.label(op)) in LABELS.split()}
#: The half type of the test on each device.
HALF = {"cpu": torch.bfloat16, "wgpu": torch.float16}

LINEAR_ALGEBRA = "factorizations of half matrices are refused"
#: Entries whose dtypes differ, with the reason.
DIFFERENCES = {
    "cpu": {
        "linalg.matrix_sqrth": LINEAR_ALGEBRA,
        "linalg.polar": LINEAR_ALGEBRA,
    },
    "wgpu": {
        "linalg.matrix_sqrth": LINEAR_ALGEBRA,
        "linalg.pinv": "the fake device computes it otherwise than the CPU",
        "linalg.pinv.hermitian": "the fake device computes it otherwise than the CPU",
        "native_layer_norm": "statistics have the dtype that the CPU gives",
    },
}
FAKE = FakeTensorMode(allow_non_fake_inputs=True)


def dtypes(value: Any) -> Any:
    """Return the dtypes of a result in its containers."""
    if isinstance(value, (torch.Tensor, torchlette.Tensor)):
        return dtype_name(value.dtype)
    return [dtypes(v) for v in value] if isinstance(value, (list, tuple)) else type(value).__name__


def samples(op: Any, dtype: torch.dtype) -> Any:
    """Yield samples of an entry, converted from float32 where it has none of that dtype."""
    have = dtype if dtype in op.dtypes else torch.float32
    for sample in itertools.islice(op.sample_inputs("cpu", have), 2):
        if have is not dtype:
            parts = [sample.input, tuple(sample.args), dict(sample.kwargs)]
            sample.input, sample.args, sample.kwargs = tree_map(
                lambda t: t.to(dtype) if isinstance(t, torch.Tensor) and t.dtype is torch.float32 else t, parts
            )
        yield sample


def theirs(f: Any, sample: Any, device: str) -> Any:
    if device == "cpu":
        with torch.autocast("cpu", dtype=HALF[device]):
            return dtypes(f(sample.input, *sample.args, **sample.kwargs))
    with FAKE:
        parts = tree_map(
            lambda t: FAKE.from_tensor(t).cuda() if isinstance(t, torch.Tensor) else t,
            [sample.input, tuple(sample.args), dict(sample.kwargs)],
        )
        torch.set_autocast_dtype("cuda", HALF[device])
        torch.set_autocast_enabled("cuda", True)
        try:
            return dtypes(f(parts[0], *parts[1], **parts[2]))
        finally:
            torch.set_autocast_enabled("cuda", False)


def ours(op: Any, sample: Any, device: str) -> Any:
    with facade.autocast(device, dtype=getattr(facade, dtype_name(HALF[device]))):
        return dtypes(database.call(database.counterpart(op), sample, database.Converter(device), "function"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", ["cpu", "wgpu"], indirect=True)
@pytest.mark.parametrize("label", ENTRIES)
def test_dtypes_are_pytorchs(label: str, device: str) -> None:
    op, differ = ENTRIES[label], []
    for dtype in (torch.float32, HALF[device]):
        for sample in samples(op, dtype):
            try:
                want = theirs(op.op, sample, device)
            except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
                continue  # not for this dtype, or it needs values
            try:
                got = ours(op, sample, device)
            except torchlette.NotSupportedError as e:
                if device == "wgpu" and " not implemented for 'Half'" in str(e):  # a factorization
                    continue
                got = str(e)
            if got != want:
                differ.append(f"of {dtype_name(dtype)}: got {got}, want {want}")
    if label in DIFFERENCES[device]:
        assert differ, "no difference any more"
    else:
        assert not differ, "; ".join(differ)


LISTS = AutocastTestLists(torch.device("cpu"))
LISTED = [
    *((torch.nn.functional, name, args) for name, args, *_ in LISTS.nn_fp16 + LISTS.nn_fp32),
    *((torch, name, args) for name, args, *_ in LISTS.torch_fp16 + LISTS.torch_fp32),
    *((torch, name, args) for name, args, *_ in LISTS.torch_need_autocast_promote),
]
#: Left out: ours is the function of nn.functional, which takes no targets of another rank.
NOT_THE_SAME = ("margin_ranking_loss",)


@pytest.mark.parametrize("device", ["wgpu"], indirect=True)
def test_operands_of_mixed_dtypes_are_promoted_as_in_pytorch(device: str) -> None:
    """The lists of PyTorch's own tests, on fake CUDA tensors and here."""
    seen, differ = 0, []
    for module, name, args in LISTED:
        theirs_of = getattr(module, name, None)
        ours_of = database.lookup(name) or database.lookup(f"nn.functional.{name}")
        if theirs_of is None or ours_of is None or name.startswith(("cudnn", "_", *NOT_THE_SAME)):
            continue
        sample = type("Sample", (), {"input": args[0], "args": args[1:], "kwargs": {}})
        try:
            want = theirs(theirs_of, sample, device)
        except (RuntimeError, NotImplementedError, TypeError, AssertionError):
            continue
        seen += 1
        with facade.autocast(device, dtype=facade.float16):
            got = dtypes(database.call(ours_of, sample, database.Converter(device), "function"))
        if got != want:
            differ.append(f"{name}: got {got}, want {want}")
    assert seen > 60
    assert not differ


def test_contexts_are_of_one_thread() -> None:
    """A context of one thread casts nothing in another."""
    inside, done, seen = threading.Event(), threading.Event(), []
    x = facade.ones(2, 2)

    def other() -> None:
        inside.wait()
        seen.extend([(x @ x).dtype, facade.einsum("ij,jk->ik", x, x).dtype, facade.is_autocast_enabled("cpu")])
        with facade.autocast("cpu", dtype=facade.float16):
            seen.append((x @ x).dtype)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with facade.autocast("cpu"):
        inside.set()
        done.wait()
        assert (x @ x).dtype is facade.bfloat16
    thread.join()
    assert seen == [facade.float32, facade.float32, False, facade.float16]
