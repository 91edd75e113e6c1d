"""torch.utils.data.datapipes: pipes give PyTorch's items in PyTorch's order, and refuse what PyTorch refuses."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest
import torch

import torchlette.torch as facade
from torchlette.utils.data.dataloader import WorkerInfo, _divide_pipes

LIBS = pytest.mark.parametrize("t", [torch, facade], ids=["torch", "ours"])


def pipes(t, kind="iter"):
    return import_module(f"{t.__name__}.utils.data.datapipes.{kind}")


def add(a, b=1):
    return a + b


ITERATED = {
    "map": lambda p: p.IterableWrapper(range(4)).map(add),
    "columns": lambda p: p.IterableWrapper([(1, 2, 3), (4, 5, 6)]).map(add, input_col=[0, 2]),
    "new column": lambda p: p.IterableWrapper([(1, 2), (4, 5)]).map(add, input_col=1, output_col=-1),
    "another column": lambda p: p.IterableWrapper([{"a": 1, "b": 2}]).map(add, input_col="a", output_col="b"),
    "filter": lambda p: p.IterableWrapper(range(6)).filter(lambda x: x % 2 == 0),
    "filter by column": lambda p: p.IterableWrapper([(1, 2), (4, 3)]).filter(lambda a, b: a < b, input_col=[0, 1]),
    "batch": lambda p: p.IterableWrapper(range(5)).batch(2),
    "whole batches": lambda p: p.IterableWrapper(range(5)).batch(2, drop_last=True),
    "unbatch": lambda p: p.IterableWrapper(range(5)).batch(2).batch(2).unbatch(unbatch_level=2),
    "unbatch all": lambda p: p.IterableWrapper([[1, [2]], 3]).unbatch(unbatch_level=-1),
    "shuffle": lambda p: p.IterableWrapper(range(20)).shuffle().set_seed(3),
    "small buffer": lambda p: p.IterableWrapper(range(20)).shuffle(buffer_size=4).set_seed(3),
    "no shuffle": lambda p: p.IterableWrapper(range(5)).shuffle().set_shuffle(False),
    "shuffled batches": lambda p: p.IterableWrapper(range(9)).batch(3).shuffle(unbatch_level=1).set_seed(1),
    "concat": lambda p: p.IterableWrapper(range(2)).concat(p.IterableWrapper("ab")),
    "zip": lambda p: p.IterableWrapper(range(3)).zip(p.IterableWrapper("ab")),
    "mux": lambda p: p.IterableWrapper(range(3)).mux(p.IterableWrapper("ab")),
    "groupby": lambda p: p.IterableWrapper(range(7)).groupby(lambda x: x % 3, keep_key=True, group_size=2),
    "groups of a buffer": lambda p: p.IterableWrapper([0, 1, 1, 2, 2, 2]).groupby(lambda x: x, buffer_size=3),
    "sampler": lambda p: p.Sampler(p.IterableWrapper(range(3))),
    "fork": lambda p: p.Zipper(*p.IterableWrapper(range(3)).fork(2)),
    "demux": lambda p: p.Zipper(*p.IterableWrapper(range(5)).demux(2, lambda x: x % 2)),
    "sharding": lambda p: p.IterableWrapper(range(5)).sharding_filter(),
}
BY_KEY = {
    "map": lambda p: p.SequenceWrapper(range(3)).map(add),
    "concat": lambda p: p.SequenceWrapper(range(3)).concat(p.SequenceWrapper("ab")),
    "zip": lambda p: p.SequenceWrapper(range(3)).zip(p.SequenceWrapper("ab")),
    "batch": lambda p: p.SequenceWrapper(range(5)).batch(2),
}


def lengths(pipe):
    try:
        return len(pipe)
    except TypeError:
        return None


@pytest.mark.parametrize("name", ITERATED)
def test_items_one_after_the_other(name):
    seen = []
    for t in (torch, facade):
        pipe = ITERATED[name](pipes(t))
        assert isinstance(pipe, t.utils.data.IterDataPipe)
        seen.append([list(pipe), lengths(pipe), repr(pipe).removesuffix("IterDataPipe")])
    assert seen[1] == seen[0] and seen[0][0]


@pytest.mark.parametrize("name", BY_KEY)
def test_items_by_key(name):
    seen = []
    for t in (torch, facade):
        pipe = BY_KEY[name](pipes(t, "map"))
        assert isinstance(pipe, t.utils.data.MapDataPipe)
        seen.append([pipe[i] for i in range(len(pipe))])
        with pytest.raises(IndexError):
            pipe[len(pipe)]
    assert seen[1] == seen[0]
    orders = [list(pipes(t, "map").SequenceWrapper("abcdef").shuffle().set_seed(2)) for t in (torch, facade)]
    assert orders[0] == orders[1]


WRONG = {
    "no batch": lambda p: p.IterableWrapper([1]).batch(0),
    "no buffer": lambda p: p.IterableWrapper([1]).shuffle(buffer_size=0),
    "no bool": lambda p: list(p.IterableWrapper([1]).filter(lambda x: x)),
    "too deep": lambda p: list(p.IterableWrapper([1]).unbatch()),
    "no level": lambda p: list(p.IterableWrapper([[1]]).unbatch(-2)),
    "no pipe": lambda p: p.IterableWrapper([1]).concat([2]),
    "no forks": lambda p: p.IterableWrapper([1]).fork(0),
    "a copy": lambda p: p.IterableWrapper([1]).fork(2, copy="x"),
    "fork's buffer": lambda p: list(p.IterableWrapper(range(5)).fork(2, buffer_size=2)[0]),
    "demux's buffer": lambda p: list(p.IterableWrapper(range(5)).demux(2, lambda x: x > 0, buffer_size=2)[0]),
    "a class": lambda p: list(p.IterableWrapper(range(5)).demux(2, lambda x: 2)[0]),
    "columns": lambda p: p.IterableWrapper([1]).map(add, output_col=1),
    "no method": lambda p: p.IterableWrapper([1]).nothing,
    "a group": lambda p: list(p.IterableWrapper(range(3)).groupby(lambda x: x, buffer_size=2, group_size=2)),
    "a shard": lambda p: p.IterableWrapper(range(3)).sharding_filter().apply_sharding(2, 2),
    "length": lambda p: len(p.IterableWrapper(range(3)).filter(bool)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_pytorch_refuses(name):
    errors = []
    for t in (torch, facade):
        with pytest.raises(Exception) as caught:
            WRONG[name](pipes(t))
        errors.append(caught.type)
    assert errors[0] is errors[1]


@LIBS
def test_classes_of_a_program_become_methods(t):
    data = t.utils.data

    class Twice(data.IterDataPipe):
        def __init__(self, source):
            self.source, self.resets = source, 0

        def __iter__(self):
            for item in self.source:
                yield item
                yield item

        def reset(self):
            self.resets += 1

    name = f"twice_{t.__name__.replace('.', '_')}"
    assert data.functional_datapipe(name)(Twice) is Twice
    pipe = getattr(pipes(t).IterableWrapper(range(2)), name)()
    assert list(pipe) == list(pipe) == [0, 0, 1, 1] and pipe.resets == 2
    first = iter(pipe)
    next(first)
    assert next(iter(pipe)) == 0
    with pytest.raises(RuntimeError, match="invalidated"):
        next(first)
    with pytest.raises(Exception, match="already taken"):
        data.functional_datapipe(name)(Twice)
    assert name in dir(pipe)


@LIBS
def test_loaders_take_pipes(t):
    source = pipes(t).IterableWrapper(range(6)).map(add)
    loader = t.utils.data.DataLoader
    assert [b.tolist() for b in loader(source, 4)] == [[1, 2, 3, 4], [5, 6]]
    shuffled = source.shuffle()
    assert [b.tolist() for b in loader(shuffled, 6, shuffle=False)] == [[1, 2, 3, 4, 5, 6]]
    assert sorted(next(iter(loader(shuffled, 6, shuffle=True))).tolist()) == [1, 2, 3, 4, 5, 6]
    assert next(iter(loader(source.batch(2).collate(), None))).tolist() == [1, 2]
    assert [b.tolist() for b in loader(pipes(t, "map").SequenceWrapper(range(3)), 2)] == [[0, 1], [2]]
    assert list(pickle.loads(pickle.dumps(shuffled.set_shuffle(False)))) == [1, 2, 3, 4, 5, 6]


def test_the_seed_of_the_library_orders_items():
    pipe = pipes(facade).IterableWrapper(range(50)).shuffle()
    orders = []
    for _ in range(2):
        facade.manual_seed(7)
        orders.append(list(pipe))
    assert orders[0] == orders[1] != list(pipe)


def test_workers_divide_the_items_of_one_order():
    parts = []
    for worker in range(2):
        pipe = pipes(facade).IterableWrapper(range(21)).shuffle().sharding_filter().map(add)
        info = WorkerInfo(worker, 2, 100 + worker, pipe)
        _divide_pipes(info, 0)
        parts.append(list(pipe))
        _divide_pipes(info, 1)
        assert list(pipe) != parts[-1]
    assert sorted(parts[0] + parts[1]) == list(range(1, 22)) and len(parts[0]) == 11
