"""Datasets, samplers, collation and loaders give PyTorch's items in its order; workers' errors come back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter, namedtuple
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import torchlette as tl
import torchlette.utils.data
from torchlette.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)

Point = namedtuple("Point", ["x", "y"])


class Squares(Dataset):
    """Item i is (i, i * i)."""

    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return i, float(i * i)

    def __len__(self):
        return self.n


class Stream(IterableDataset):
    """The numbers below n; workers share them out."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.n, step))


class Failing(Dataset):
    """Raises at item 3."""

    def __getitem__(self, i):
        if i == 3:
            raise KeyError("item three")
        return i

    def __len__(self):
        return 6


def test_tensor_dataset():
    data = TensorDataset(tl.arange(6).reshape(3, 2), tl.tensor([0, 1, 2]))
    assert len(data) == 3
    row, label = data[1]
    assert row.tolist() == [2, 3]
    assert label.item() == 1
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(tl.zeros(2), tl.zeros(3))


def test_composed_datasets():
    both = Squares(3) + Squares(2)
    assert isinstance(both, ConcatDataset)
    assert [both[i][0] for i in range(len(both))] == [0, 1, 2, 0, 1]
    assert both[-1] == (1, 1.0)
    with pytest.raises(ValueError):
        both[-6]
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    assert isinstance(Stream(2) + Stream(3), ChainDataset)
    part = Subset(Squares(10), [7, 3])
    assert len(part) == 2
    assert part[1] == (3, 9.0)
    assert part.__getitems__([1, 0]) == [(3, 9.0), (7, 49.0)]
    stacked = StackDataset(a=Squares(2), b=Squares(2))
    assert stacked[1] == {"a": (1, 1.0), "b": (1, 1.0)}
    with pytest.raises(ValueError, match="Size mismatch"):
        StackDataset(Squares(2), Squares(3))


def test_random_split():
    parts = random_split(Squares(10), [7, 3])
    assert [len(p) for p in parts] == [7, 3]
    assert sorted(i for p in parts for i in p.indices) == list(range(10))
    assert [len(p) for p in random_split(Squares(10), [0.5, 0.25, 0.25])] == [6, 2, 2]
    with pytest.raises(ValueError):
        random_split(Squares(10), [7, 4])


def test_split_follows_its_generator():
    splits = [random_split(Squares(20), [10, 10], tl.Generator().manual_seed(s))[0].indices for s in (1, 1, 2)]
    assert splits[0] == splits[1]
    assert splits[0] != splits[2]


def test_samplers():
    source = Squares(10)
    assert list(SequentialSampler(source)) == list(range(10))
    tl.manual_seed(4)
    first = list(RandomSampler(source))
    tl.manual_seed(4)
    assert list(RandomSampler(source)) == first
    assert sorted(first) == list(range(10))
    assert first != list(range(10))
    assert len(list(RandomSampler(source, num_samples=25))) == 25
    drawn = list(RandomSampler(source, replacement=True, num_samples=200))
    assert set(drawn) == set(range(10))
    assert sorted(SubsetRandomSampler([4, 5, 9])) == [4, 5, 9]
    assert list(BatchSampler(range(5), 2, drop_last=False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert [len(BatchSampler(range(5), 2, d)) for d in (False, True)] == [3, 2]


def test_weighted_sampler():
    drawn = Counter(WeightedRandomSampler([1.0, 0.0, 3.0], 4000))
    assert drawn[1] == 0
    assert 2.4 < drawn[2] / drawn[0] < 3.7
    assert sorted(WeightedRandomSampler([1.0, 0.0, 3.0], 2, replacement=False)) == [0, 2]
    with pytest.raises(ValueError):
        WeightedRandomSampler([1.0, 0.0], 2, replacement=False)


def test_collate():
    assert default_collate([1, 2]).dtype == tl.int64
    assert default_collate([1.0, 2.0]).dtype == tl.float64
    assert default_collate([tl.ones(2), tl.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    batch = default_collate([{"a": np.float32(1), "b": ["x", 1]}, {"a": np.float32(2), "b": ["y", 2]}])
    assert batch["a"].dtype == tl.float32
    assert batch["b"][0] == ("x", "y")
    assert batch["b"][1].tolist() == [1, 2]
    arrays = default_collate([np.arange(2, dtype=np.int32), np.arange(2, dtype=np.int32)])
    assert arrays.dtype == tl.int32
    point = default_collate([Point(1, 2.0), Point(3, 4.0)])
    assert isinstance(point, Point)
    assert point.x.tolist() == [1, 3]
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError):
        default_collate([object()])


def test_loader_in_this_process():
    loader = DataLoader(Squares(7), batch_size=3)
    assert len(loader) == 3
    batches = list(loader)
    assert [b[0].tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert batches[1][1].tolist() == [9.0, 16.0, 25.0]
    assert len(list(DataLoader(Squares(7), 3, drop_last=True))) == len(DataLoader(Squares(7), 3, drop_last=True)) == 2
    assert [x for x, _ in DataLoader(Squares(3), batch_size=None)] == [0, 1, 2]
    lists = list(DataLoader(Squares(4), 2, collate_fn=lambda items: [i for i, _ in items]))
    assert lists == [[0, 1], [2, 3]]


def test_shuffle_gives_every_item_in_new_order():
    loader = DataLoader(Squares(32), batch_size=8, shuffle=True)
    epochs = [[i for x, _ in loader for i in x.tolist()] for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(32))
    assert epochs[0] != epochs[1]
    tl.manual_seed(9)
    again = [i for x, _ in loader for i in x.tolist()]
    tl.manual_seed(9)
    assert again == [i for x, _ in loader for i in x.tolist()]


def test_iterable_dataset():
    assert [b.tolist() for b in DataLoader(Stream(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in DataLoader(Stream(5), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]


def test_loader_errors():
    for options in (
        {"shuffle": True, "sampler": [1]},
        {"batch_sampler": [[1]], "batch_size": 4},
        {"batch_size": None, "drop_last": True},
        {"num_workers": -1},
        {"prefetch_factor": 2},
        {"multiprocessing_context": "fork"},
    ):
        with pytest.raises(ValueError):
            DataLoader(Squares(3), **options)
    with pytest.raises(ValueError, match="IterableDataset"):
        DataLoader(Stream(3), shuffle=True)


def double_first(worker):
    """Set a mark that the worker's datasets can read."""
    import builtins

    builtins.torchlette_worker_mark = worker


def test_workers_give_the_same_batches_in_order():
    here = [[x.tolist(), y.tolist()] for x, y in DataLoader(Squares(11), batch_size=2)]
    loader = DataLoader(Squares(11), batch_size=2, num_workers=2, worker_init_fn=double_first, persistent_workers=True)
    try:
        for _ in range(2):
            assert [[x.tolist(), y.tolist()] for x, y in loader] == here
    finally:
        loader._pool.stop()


def test_workers_share_a_stream():
    seen = sorted(i for batch in DataLoader(Stream(7), batch_size=2, num_workers=2) for i in batch.tolist())
    assert seen == list(range(7))


def test_worker_errors_come_here():
    with pytest.raises(
        KeyError, match="(?s)Caught KeyError in DataLoader worker process 0.\nOriginal Traceback.*item three"
    ):
        list(DataLoader(Failing(), batch_size=2, num_workers=1))


class OddError(Exception):
    """An error whose constructor does not take a message."""

    def __init__(self, number, /, *, place):
        super().__init__(number, place)


class Slow(Dataset):
    """Item i is who made it; the first worker is slow, and item 6 fails."""

    def __getitem__(self, i):
        worker = get_worker_info().id
        if i == 6:
            raise OddError(6, place="here")
        time.sleep(0.2 * (worker == 0))
        return worker

    def __len__(self):
        return 8


def test_batches_are_the_workers_in_turn():
    # What a worker draws for an item repeats then, and an error comes after the batches before it.
    got = []
    with pytest.raises(RuntimeError, match="(?s)Caught OddError.*here"):
        for batch in DataLoader(Slow(), batch_size=1, num_workers=2):
            got += batch.tolist()
    assert got == [0, 1, 0, 1, 0, 1]


def test_workers_that_cannot_start() -> None:
    """A dataset that cannot be pickled is loaded here, with a warning."""

    class Local(Squares):
        """A local class, which a worker cannot import, with what cannot be pickled."""

        lock = threading.Lock()

    loader = DataLoader(Local(5), batch_size=2, num_workers=2)
    with pytest.warns(UserWarning, match="pickled"):
        first = [[t.tolist() for t in batch] for batch in loader]
    assert first == [[t.tolist() for t in batch] for batch in DataLoader(Squares(5), batch_size=2)]
    assert [[t.tolist() for t in batch] for batch in loader] == first


UNGUARDED = """
import abc, collections, dataclasses, enum, functools, threading, typing
import torchlette.torch as torch
from torch_names import DataLoader, Dataset

print("once", flush=True)
SCALE = 3
T = typing.TypeVar("T")
Pair = collections.namedtuple("Pair", "a b")

class Row(typing.NamedTuple):
    x: int
    y: float = 2.0

class Kind(enum.Enum):
    A = 1
    B = 2

    def twice(self):
        return self.value * 2

@dataclasses.dataclass
class Options:
    n: int = 4
    names: list = dataclasses.field(default_factory=list)

class Base(Dataset, abc.ABC):
    @abc.abstractmethod
    def f(self, i): ...

    def __len__(self):
        return self.options.n

class Mine(Base, typing.Generic[T]):
    __slots__ = ("z",)
    LIMIT = 7

    def __init__(self, options):
        self.options, self.table, self.z = options, torch.arange(10.0), 5

    def f(self, i):
        return helper(i) * SCALE

    @staticmethod
    def up(i):
        return i + 1

    @classmethod
    def limit(cls, i):
        return i + cls.LIMIT

    @property
    def size(self):
        return self.z

    @functools.cached_property
    def base(self):
        return 100

    def __getitem__(self, i):
        x = self.up(i) + self.limit(i) + self.size + self.base + Kind.B.twice()
        return Pair(self.f(i) + self.table[i], Row(x, len(dataclasses.fields(self.options))))

def helper(i):
    return cached(i) if i < 2 else helper(i - 1)

@functools.lru_cache(maxsize=4)
def cached(i):
    return i

def made():
    k = 10

    class Local(Mine):
        def f(self, i):
            return super().f(i) + k

    return Local

torch.set_default_dtype(torch.float64)
joined = lambda rows: [Pair(p.a + torch.zeros(1), p.b) for p in rows]
rows = DataLoader(made()(Options()), batch_size=2, num_workers=1, collate_fn=joined)
for batch in rows:
    print([(p.a.item(), p.a.dtype, tuple(p.b)) for p in batch])
"""


def test_workers_without_a_guarded_entry(tmp_path: Path) -> None:
    """A script whose entry is not guarded runs once; workers have its classes, functions and default dtype."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED.replace("torch_names", "torchlette.utils.data"))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "once",
        "[(10.0, torch.float64, (117, 2)), (14.0, torch.float64, (119, 2))]",
        "[(15.0, torch.float64, (121, 2)), (16.0, torch.float64, (123, 2))]",
    ], done.stderr
    assert not done.stderr


def test_workers_import_a_program_that_cannot_be_pickled(tmp_path: Path) -> None:
    """A class with a lock is imported, under a guard; without one the loader says why it loads alone."""
    script = tmp_path / "script.py"
    lines = [
        "import threading, torchlette.torch as torch",
        "class Numbers(torch.utils.data.Dataset):",
        "    lock = threading.Lock()",
        "    def __len__(self):\n        return 4",
        "    def __getitem__(self, i):\n        return torch.tensor(i)",
        "if True:",
        "    print([b.tolist() for b in torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=1)])",
    ]
    for guard, why in (("if __name__ == '__main__':", ""), ("if True:", "__main__")):
        script.write_text("\n".join(guard if line == "if True:" else line for line in lines))
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
        assert done.stdout == "[[0, 1], [2, 3]]\n", done.stderr
        assert why in done.stderr and bool(done.stderr) == bool(why)


@pytest.mark.parametrize("name", ["torch", "torchlette.torch"])
def test_a_fetcher_gives_the_batches_of_a_loader(name):
    data = import_module(f"{name}.utils.data")
    module = import_module(f"{name}.utils.data.dataloader")
    assert next(iter(module._InfiniteConstantSampler())) is None

    class Numbers(data.IterableDataset):
        def __iter__(self):
            return iter(range(3))

    for dataset, kind in ((range(3), module._DatasetKind.Map), (Numbers(), module._DatasetKind.Iterable)):
        loader = data.DataLoader(dataset, 2)
        assert loader._dataset_kind == kind and loader._index_sampler is loader.batch_sampler
        fetcher = module._DatasetKind.create_fetcher(kind, dataset, loader._auto_collation, list, False)
        assert [fetcher.fetch(request) for request in ([0, 1], [2])] == [[0, 1], [2]]
