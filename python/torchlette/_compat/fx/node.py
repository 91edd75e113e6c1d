"""Nodes of a graph: one call each, linked in a ring in the order of execution."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchlette._compat.fx.graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any

_OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_side_effects: set[Any] = {builtins.print}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that calls of a function must stay when nothing uses their results; return the function."""
    _side_effects.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Return nested arguments with ``fn`` of each leaf."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(item, fn) for item in a]
    if isinstance(a, dict):
        return {key: map_aggregate(item, fn) for key, item in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(item, fn) for item in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Return nested arguments with ``fn`` of each node."""
    return map_aggregate(a, lambda item: fn(item) if isinstance(item, Node) else item)


def qualified_name(function: Callable[..., Any]) -> str:
    """Return a function's name in printed graphs: PyTorch's for its functions."""
    from torchlette._compat.overrides import resolve_name

    if getattr(builtins, getattr(function, "__name__", ""), None) is function:
        return str(function.__name__)
    try:
        known = resolve_name(function)
    except TypeError:  # not hashable
        known = None
    if known is not None:
        return known
    name = getattr(function, "__name__", type(function).__name__)
    module = getattr(function, "__module__", None) or ""
    return f"{module}.{name}".replace("_operator", "operator").lstrip(".")


class Node:
    """A call in a graph.

    ``op`` says what ``target`` is: of ``placeholder`` the name of an argument, of ``get_attr`` and ``call_module`` the
    path of an attribute or submodule, of ``call_function`` a function, of ``call_method`` the name of a method of the
    first argument. ``output`` returns its argument. ``args`` and ``kwargs`` hold nodes and constants, also nested.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        """Make a node that is in no graph yet; :meth:`Graph.create_node` does both."""
        if op not in _OPS:
            raise AssertionError(f"{op} is no kind of node: want one of {_OPS}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} must be a Callable")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._set(args, kwargs)

    # Arguments ---------------------------------------------------------------------------

    def _set(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}
        self._args: tuple[Argument, ...] = map_arg(tuple(args), self._use)
        self._kwargs: dict[str, Argument] = map_arg(dict(kwargs), self._use)

    def _use(self, node: Node) -> Node:
        self._input_nodes.setdefault(node)
        node.users.setdefault(self)
        return node

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace a positional argument."""
        self.args = (*self._args[:idx], arg, *self._args[idx + 1 :])

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace a keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace a node among the arguments."""
        swap = {old_input: new_input}
        args, kwargs = map_arg((self._args, self._kwargs), lambda n: swap.get(n, n))
        self._set(args, kwargs)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let the users of this node use another one; return them.

        Args:
            replace_with: The other node.
            delete_user_cb: Says of a user whether it changes.
            propagate_meta: Whether the other node gets this one's ``meta``, which must be empty there.
        """
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if user is not replace_with and delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # Places in the graph -----------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move ``x`` to the place before this node."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Move ``x`` to the place after this node."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node must stay when nothing uses it: arguments, outputs, writes, declared functions."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effects
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_module":
            module = self.graph.owning_module
            found = module.get_submodule(str(self.target)) if module is not None else None
            return bool(getattr(found, "_is_impure", False))
        return False

    # Text --------------------------------------------------------------------------------

    def _pretty_print_target(self, target: Any) -> str:
        return target if isinstance(target, str) else qualified_name(target)

    def _annotation(self) -> str:
        """Return the type of a parameter as code has it, for types that need no import."""
        known = isinstance(self.type, type) and self.type.__module__ == "builtins"
        return f" : {self.type.__name__}" if known else ""

    def format_node(self, placeholder_names: Any = None, maybe_return_typename: Any = None) -> str | None:
        """Return a line that describes the node."""
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            users = f"[num_users={len(self.users)}]"
            return f"%{self.name} :{self._annotation()[2:]} {users} = {self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={self.target}]"
        if self.op == "output":
            return f"return {self.args[0]}"
        return (
            f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target="
            f"{self._pretty_print_target(self.target)}](args = {_shown(self.args)}, "
            f"kwargs = {{{', '.join(f'{key}: {_shown(value)}' for key, value in self.kwargs.items())}}})"
        )

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn is not None else self.name

    def __lt__(self, other: Node) -> bool:
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        return order[self] < order[other]


class _Percent:
    def __init__(self, node: Node) -> None:
        self.name = node.name

    def __repr__(self) -> str:
        return f"%{self.name}"


def _shown(a: Any) -> str:
    return str(map_arg(a, _Percent))
