"""Nested lists, tuples, named tuples, dictionaries and registered classes as trees of leaves, after
``torch.utils._pytree``.
"""

from __future__ import annotations

import importlib
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
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
    "treespec_dumps",
    "treespec_loads",
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


class _Written(NamedTuple):
    """The name of a class in the text of a tree, and the functions of its context to data for JSON, and back."""

    name: str
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]


_written: dict[Any, _Written] = {}
#: Name in a text -> its class of named tuples.
_named: dict[str, type] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    **options: Any,
) -> None:
    """Treat instances of ``cls`` as containers. Subclasses are unaffected.

    Args:
        cls: The class.
        flatten_fn: Returns an instance's children and its context: the data that ``unflatten_fn`` needs besides the
            children.
        unflatten_fn: Builds an instance from children and context.
        serialized_type_name: The class's name in texts of :func:`treespec_dumps`, which needs it.
        to_dumpable_context: Returns data for JSON from the context; None: the context is such data.
        from_dumpable_context: Returns the context from the data.
        options: Accepted for compatibility.

    Raises:
        ValueError: The class is registered; or one of the two functions of contexts is given without the other.
    """
    if cls in _registered:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    if serialized_type_name is not None:
        _written[cls] = _Written(
            serialized_type_name, to_dumpable_context or json.dumps, from_dumpable_context or json.loads
        )
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


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable[Any], context: list[Any]) -> defaultdict[Any, Any]:
    return defaultdict(context[0], zip(context[1], values, strict=True))


def _factory_to_data(context: list[Any]) -> dict[str, Any]:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _factory_from_data(data: Any) -> list[Any]:
    if not isinstance(data, dict) or data.keys() != {
        "default_factory_module",
        "default_factory_name",
        "dict_context",
    }:
        raise ValueError(f"treespec_loads: no context of a defaultdict: {data!r}")
    module = importlib.import_module(data["default_factory_module"])
    return [getattr(module, data["default_factory_name"]), data["dict_context"]]


def _keys_to_data(keys: Any) -> str:
    return json.dumps(list(keys))


def _keys_from_data(data: Any) -> tuple[Any, ...]:
    return tuple(json.loads(data))


register_pytree_node(
    defaultdict,
    _defaultdict_flatten,
    _defaultdict_unflatten,
    serialized_type_name="collections.defaultdict",
    to_dumpable_context=_factory_to_data,
    from_dumpable_context=_factory_from_data,
)
register_pytree_node(
    deque,
    lambda d: (list(d), d.maxlen),
    lambda children, maxlen: deque(children, maxlen),
    serialized_type_name="collections.deque",
)
_written[list] = _Written("builtins.list", lambda _: "null", lambda _: ())
_written[tuple] = _Written("builtins.tuple", lambda _: "null", lambda _: ())
_written[dict] = _Written("builtins.dict", _keys_to_data, _keys_from_data)
_written[OrderedDict] = _Written("collections.OrderedDict", _keys_to_data, _keys_from_data)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Let :func:`treespec_dumps` write a class of named tuples.

    Args:
        cls: The class.
        serialized_type_name: Its name in the text.
    """
    _named[serialized_type_name] = cls


def _as_data(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    name = next((name for name, kind in _named.items() if kind is spec.type), None)
    written = _written.get(spec.type) if name is None else _Written("collections.namedtuple", lambda _: name, str)
    if written is None:
        raise NotImplementedError(
            f"treespec_dumps: {spec.type} has no name for texts: register it with a `serialized_type_name`"
        )
    try:
        context = written.to_data(spec.context)
    except TypeError as error:
        raise TypeError(f"treespec_dumps: the context of {spec.type} is no data for JSON: {error}") from error
    return {"type": written.name, "context": context, "children_spec": [_as_data(c) for c in spec.children_specs]}


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return the containers of a tree as a text of JSON: PyTorch's form.

    Args:
        treespec: What :func:`tree_flatten` returned.
        protocol: None or 1.

    Raises:
        NotImplementedError: A class has no name for texts.
        TypeError: A context, such as the keys of a dictionary, is no data for JSON.
        ValueError: ``protocol`` is another.
    """
    if protocol not in (None, 1):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return json.dumps((1, _as_data(treespec)))


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the containers that a text of :func:`treespec_dumps`, or of PyTorch, describes.

    Raises:
        NotImplementedError: No class is registered under a name in the text.
        ValueError: The text has another protocol.
    """
    protocol, data = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    kinds = {written.name: kind for kind, written in _written.items()}

    def read(node: dict[str, Any]) -> TreeSpec:
        if node["type"] is None:
            return TreeSpec(None)
        children = tuple(map(read, node["children_spec"]))
        if node["type"] == "collections.namedtuple" and node["context"] in _named:
            return TreeSpec(_named[node["context"]], (), children)
        if node["type"] not in kinds:
            raise NotImplementedError(
                f"treespec_loads: no class is registered as {node['type']!r}: import what registers it, or register it "
                "with this `serialized_type_name`"
            )
        kind = kinds[node["type"]]
        return TreeSpec(kind, _written[kind].from_data(node["context"]), children)

    return read(data)


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
