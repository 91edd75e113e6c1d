"""torch.utils._pytree: nested containers are flattened, mapped and put together as in PyTorch."""

from __future__ import annotations

import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade


def test_trees_of_registered_classes() -> None:
    """A registered class is a container, before and after the call that maps its leaves."""
    for lib in (torch, facade):
        trees = importlib.import_module(lib.__name__ + ".utils._pytree")

        class Pair:
            def __init__(self, a: Any, b: Any) -> None:
                self.a, self.b = a, b

        trees.register_pytree_node(
            Pair, lambda p: ([p.a, p.b], None), lambda children, context, made=Pair: made(*children)
        )
        leaves, spec = trees.tree_flatten({"x": Pair(1, [2, 3])})
        assert leaves == [1, 2, 3]
        assert spec.num_leaves == 3
        doubled = trees.tree_map(lambda n: 2 * n, {"x": Pair(1, [2, 3])})
        assert (doubled["x"].a, doubled["x"].b) == (2, [4, 6])
        with pytest.raises(ValueError, match="already registered"):
            trees.register_pytree_node(Pair, None, None)


def test_trees() -> None:
    """Nested containers are flattened, mapped and put together as in PyTorch."""
    tree = {"b": [1, (2, 3)], "a": {"c": 4}, "n": None}
    for lib in (torch, torchlette):
        pytree = importlib.import_module(f"{lib.__name__}.utils._pytree")
        leaves, spec = pytree.tree_flatten(tree)
        assert leaves == [1, 2, 3, 4, None]
        assert spec.num_leaves == 5
        assert pytree.tree_unflatten(leaves, spec) == tree
        assert pytree.tree_map(lambda a, b: (a, b), [1, (2,)], [3, (4,)]) == [(1, 3), ((2, 4),)]
        assert pytree.tree_map_only(int, lambda x: -x, {"a": 1, "b": "x"}) == {"a": -1, "b": "x"}
        with pytest.raises(ValueError, match="length"):
            pytree.tree_unflatten([1], spec)


def test_texts_of_trees_are_pytorchs() -> None:
    """Each library reads the other's text; containers without a name, and keys that are no JSON, are refused."""
    point, named = namedtuple("point", "x y"), namedtuple("named", "x")
    trees = [lib.utils._pytree for lib in (torch, facade)]
    for tree in trees:
        tree._register_namedtuple(named, serialized_type_name=f"test_trees.{tree.__name__}")
    for value in ([1, (2, {"a": 3})], OrderedDict(a=1), defaultdict(list, a=[1]), deque([1, 2], 3), None, [named(1)]):
        texts = []
        for tree in trees:
            leaves, spec = tree.tree_flatten(value)
            texts.append(tree.treespec_dumps(spec).replace(tree.__name__, "x"))
            again = tree.treespec_loads(tree.treespec_dumps(spec))
            assert again == spec and tree.tree_unflatten(leaves, again) == value
        assert texts[0] == texts[1]
    made = trees[1].tree_map(lambda n: n + 1, deque([defaultdict(int, a=1)], 3))
    assert made == deque([{"a": 2}]) and made.maxlen == 3 and made[0].default_factory is int
    for tree in trees:
        with pytest.raises(NotImplementedError):
            tree.treespec_dumps(tree.tree_structure(point(1, 2)))
        with pytest.raises(TypeError):
            tree.treespec_dumps(tree.tree_structure({object(): 1}))
        with pytest.raises(ValueError, match="Unknown protocol 2"):
            tree.treespec_dumps(tree.tree_structure(1), 2)
        with pytest.raises(NotImplementedError, match=r"nowhere\.Class"):
            tree.treespec_loads('[1, {"type": "nowhere.Class", "context": "null", "children_spec": []}]')
