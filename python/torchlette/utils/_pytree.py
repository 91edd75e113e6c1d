"""Nested lists, tuples, named tuples, dictionaries and registered classes as trees of leaves, after
``torch.utils._pytree``.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "SUPPORTED_NODES",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any


class NodeDef(NamedTuple):
    """A class of containers, and its functions: instance to (children, context), and back."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Any, Any], Any]


_registered: dict[type, NodeDef] = {}


@dataclass(frozen=True)
class MappingKey:
    """The key of a child in a mapping."""

    key: Any


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], tuple[Any, Any]], unflatten_fn: Callable[[Any, Any], Any], **options: Any
) -> None:
    """Treat instances of ``cls`` as containers. Subclasses are unaffected.

    Args:
        cls: The class.
        flatten_fn: Returns an instance's children and its context: the data that ``unflatten_fn`` needs besides the
            children.
        unflatten_fn: Builds an instance from children and context.
        options: Accepted for compatibility: they concern exported programs.
    """
    if cls in _registered:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _registered[cls] = SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Iterable[Any]) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


@dataclass(frozen=True)
class TreeSpec:
    """The containers of a tree, without its leaves."""

    #: The container's class; ``None`` for a leaf.
    type: type | None
    #: Keys of a dictionary, or what a registered class needs.
    context: Any = ()
    children_specs: tuple[TreeSpec, ...] = ()

    @property
    def num_leaves(self) -> int:
        """How many leaves the tree has."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Return whether the tree is one leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with these leaves."""
        left = iter(leaves)
        return self._built(left)

    def _built(self, leaves: Any) -> Any:
        if self.type is None:
            return next(leaves)
        children = [child._built(leaves) for child in self.children_specs]
        if self.type in _registered:
            return _registered[self.type].unflatten_fn(children, self.context)
        if self.type is namedtuple:  # type: ignore[comparison-overlap]
            return self.context(*children)
        if issubclass(self.type, dict):
            pairs = dict(zip(self.context, children, strict=True))
            return pairs if self.type is dict else self.type(pairs)
        return self.type(*children) if hasattr(self.type, "_fields") else self.type(children)


class LeafSpec(TreeSpec):
    """The containers of a tree that is one leaf."""

    def __init__(self) -> None:
        """Describe a leaf."""
        super().__init__(None)


def _get_node_type(tree: Any) -> Any:
    """Return the key of an object in :data:`SUPPORTED_NODES`, if it is a container."""
    return namedtuple if isinstance(tree, tuple) and hasattr(tree, "_fields") else type(tree)


#: Class -> its functions: the containers of Python and those that programs registered.
SUPPORTED_NODES: dict[Any, NodeDef] = {
    list: NodeDef(list, lambda v: (list(v), None), lambda children, _: list(children)),
    tuple: NodeDef(tuple, lambda v: (list(v), None), lambda children, _: tuple(children)),
    namedtuple: NodeDef(namedtuple, lambda v: (list(v), type(v)), lambda children, kind: kind(*children)),
    dict: NodeDef(dict, _dict_flatten, _dict_unflatten),
    OrderedDict: NodeDef(OrderedDict, _dict_flatten, lambda v, keys: OrderedDict(zip(keys, v, strict=True))),
}


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves in order and the containers."""
    leaves: list[Any] = []

    def spec_of(node: Any) -> TreeSpec:
        own = _registered.get(type(node))
        if (own is None and not isinstance(node, (list, tuple, dict))) or (is_leaf is not None and is_leaf(node)):
            leaves.append(node)
            return TreeSpec(None)
        if own is not None:
            items, keys = own.flatten_fn(node)
        else:
            items, keys = (list(node.values()), tuple(node)) if isinstance(node, dict) else (list(node), ())
        return TreeSpec(type(node), keys, tuple(spec_of(item) for item in items))

    spec = spec_of(tree)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return the tree of ``treespec`` with these leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items"
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the containers."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Return the tree of ``func`` of each leaf, and of the leaves at its place in the other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return spec.unflatten(func(*args) for args in zip(leaves, *others, strict=True))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call ``func`` for each leaf; return the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Return the tree with ``func`` of the leaves that are of ``kind``."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
