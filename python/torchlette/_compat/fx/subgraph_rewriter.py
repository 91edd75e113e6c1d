"""Replacing parts of a graph: :func:`replace_pattern`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torchlette._compat.fx._symbolic_trace import symbolic_trace
from torchlette._compat.fx.graph import Graph
from torchlette._compat.fx.graph_module import GraphModule
from torchlette._compat.fx.node import Node, map_arg
from torchlette.nn.modules.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

Pattern = Callable[..., Any] | Graph | GraphModule
#: Says of a match, the original graph and the pattern's graph whether to replace the match.
Filter = Callable[["InternalMatch", Graph, Graph], bool]


class Match(NamedTuple):
    """A part of a graph that a pattern describes."""

    #: The last node of the part, before it was replaced.
    anchor: Node
    #: Each node of the pattern's graph -> the node that it stands for.
    nodes_map: dict[Node, Any]


@dataclass
class ReplacedPatterns:
    """A match, and the nodes that took its place."""

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


@dataclass
class InternalMatch:
    """A match as filters see it."""

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)


class _Matcher:
    """Compares the pattern's nodes with those of a graph, from its results back to its arguments."""

    def __init__(self, pattern: Graph, modules: tuple[Any, Any], ignore_literals: bool) -> None:
        self.pattern, self.modules, self.ignore_literals = pattern, modules, ignore_literals
        output = next(node for node in reversed(pattern.nodes) if node.op == "output")
        self.returned: list[Node] = output.all_input_nodes
        used = {node for result in self.returned for node in result.all_input_nodes}
        self.anchors = [node for node in self.returned if node not in used] or self.returned
        self.placeholders = [node for node in pattern.nodes if node.op == "placeholder"]

    def match(self, anchor: Node) -> InternalMatch | None:
        """Return the match whose last node is ``anchor``, None if there is none.

        A pattern with several results has several last nodes. Those after the first are searched among the users of
        what the match holds already.
        """
        found = InternalMatch([anchor])
        if not self._node(self.anchors[0], anchor, found.nodes_map):
            return None
        for other in self.anchors[1:]:
            if other not in found.nodes_map and not self._elsewhere(other, found):
                return None
        if not self._closed(found.nodes_map):
            return None
        found.placeholder_nodes = [found.nodes_map[p] for p in self.placeholders if p in found.nodes_map]
        found.returning_nodes = [found.nodes_map[r] for r in self.returned]
        return found

    def _elsewhere(self, pattern: Node, found: InternalMatch) -> bool:
        near = {user for node in found.nodes_map.values() if isinstance(node, Node) for user in node.users}
        for node in sorted(near):
            trial = dict(found.nodes_map)
            if self._node(pattern, node, trial):
                found.nodes_map = trial
                found.anchors.append(node)
                return True
        return False

    def _closed(self, nodes_map: dict[Node, Any]) -> bool:
        """Return whether inner nodes are used inside only."""
        inside = {node for node in nodes_map.values() if isinstance(node, Node)}
        for pattern, node in nodes_map.items():
            inner = pattern.op != "placeholder" and pattern not in self.returned
            if inner and not set(node.users) <= inside:
                return False
        return True

    def _node(self, pattern: Node, node: Any, nodes_map: dict[Node, Any]) -> bool:
        if pattern in nodes_map:
            return bool(nodes_map[pattern] is node or (not isinstance(node, Node) and nodes_map[pattern] == node))
        if pattern.op == "placeholder":
            nodes_map[pattern] = node
            return True
        if not isinstance(node, Node) or not self._same_target(pattern, node):
            return False
        if node in nodes_map.values():
            return False
        nodes_map[pattern] = node
        return self._argument(pattern.args, node.args, nodes_map) and self._argument(
            pattern.kwargs, node.kwargs, nodes_map
        )

    def _argument(self, pattern: Any, given: Any, nodes_map: dict[Node, Any]) -> bool:
        if isinstance(pattern, Node):
            return self._node(pattern, given, nodes_map)
        if isinstance(given, Node):
            return False
        if isinstance(pattern, (list, tuple)):
            return (
                isinstance(given, (list, tuple))
                and len(pattern) == len(given)
                and all(self._argument(p, g, nodes_map) for p, g in zip(pattern, given, strict=True))
            )
        if isinstance(pattern, dict):
            return (
                isinstance(given, dict)
                and pattern.keys() == given.keys()
                and all(self._argument(p, given[key], nodes_map) for key, p in pattern.items())
            )
        return self.ignore_literals or bool(type(pattern) is type(given) and pattern == given)

    def _same_target(self, pattern: Node, node: Node) -> bool:
        if pattern.op != node.op:
            return False
        if pattern.op not in ("call_module", "get_attr") or pattern.target == node.target:
            return pattern.target == node.target
        # Modules of two trees have other names: they are the same kind of module.
        if pattern.op == "get_attr":
            return False
        theirs, ours = (m.get_submodule(str(n.target)) for m, n in zip(self.modules, (pattern, node), strict=True))
        return type(theirs) is type(ours)


def _graph(pattern: Pattern) -> tuple[Graph, Any]:
    """Return the graph of a pattern and the module that it belongs to."""
    if isinstance(pattern, Graph):
        return pattern, pattern.owning_module
    module = pattern if isinstance(pattern, GraphModule) else symbolic_trace(pattern)
    return module.graph, module


def _adopt(gm: GraphModule, source: Any, graph: Graph) -> None:
    """Give ``gm`` the modules, parameters and buffers of ``source`` that the graph uses and it lacks."""
    for node in graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        *path, name = str(node.target).split(".")
        owner, value = gm, source
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, Module())
            owner, value = getattr(owner, part), getattr(value, part)
        if not hasattr(owner, name):
            setattr(owner, name, getattr(value, name))


def _put(gm: GraphModule, found: InternalMatch, graph: Graph) -> tuple[list[Node], dict[Node, Any]]:
    """Put a copy of the graph in place of a match; return its nodes, and which result stands for which old one."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    sizes = (len(placeholders), len(output.all_input_nodes))
    wanted = (len(found.placeholder_nodes), len(found.returning_nodes))
    if sizes != wanted:
        raise AssertionError(
            f"replace_pattern: the replacement has {sizes[0]} arguments and {sizes[1]} results, the pattern "
            f"{wanted[0]} and {wanted[1]}"
        )
    copied: dict[Node, Any] = dict(zip(placeholders, found.placeholder_nodes, strict=True))
    order = {node: i for i, node in enumerate(gm.graph.nodes)}
    users = [user for node in found.returning_nodes for user in node.users]
    place = min(users, key=lambda node: order[node])._prev if users else found.returning_nodes[-1]
    new: list[Node] = []
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: copied[n])
        with gm.graph.inserting_after(place):
            place = gm.graph.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied[node] = place
        new.append(place)
    stands = {old: copied[n] for old, n in zip(found.returning_nodes, output.all_input_nodes, strict=True)}
    for old, result in stands.items():
        old.replace_all_uses_with(result, lambda user: user not in new)
    gone = {node for pattern, node in found.nodes_map.items() if pattern.op != "placeholder"}
    for node in sorted(gone, key=lambda node: -order[node]):
        if not node.users:
            gm.graph.erase_node(node)
    return new, stands


def _replace(
    gm: GraphModule, pattern: Pattern, replacement: Pattern, filters: list[Filter], ignore_literals: bool
) -> list[ReplacedPatterns]:
    pattern_graph, pattern_module = _graph(pattern)
    new_graph, new_module = _graph(replacement)
    matcher = _Matcher(pattern_graph, (pattern_module, gm), ignore_literals)
    taken: set[Node] = set()
    matches: list[InternalMatch] = []
    for node in gm.graph.nodes:
        found = matcher.match(node) if node.op not in ("placeholder", "output") else None
        if found is None:
            continue
        inner = {n for p, n in found.nodes_map.items() if p.op != "placeholder"}
        if inner & taken or not all(f(found, gm.graph, pattern_graph) for f in filters):
            continue
        taken |= inner
        matches.append(found)
    done: list[ReplacedPatterns] = []
    moved: dict[Any, Any] = {}  # a result that was replaced -> what stands for it
    for found in matches:
        _adopt(gm, new_module, new_graph)
        found.placeholder_nodes = [moved.get(n, n) if isinstance(n, Node) else n for n in found.placeholder_nodes]
        new, stands = _put(gm, found, new_graph)
        moved |= stands
        done.append(ReplacedPatterns(found.anchors[0], found.nodes_map, new))
    gm.recompile()
    return done


def replace_pattern(gm: GraphModule, pattern: Pattern, replacement: Pattern) -> list[Match]:
    """Replace each part of a graph that a pattern describes; parts that overlap with an earlier one stay.

    A part matches if its nodes call the pattern's targets on each other in the same way, an argument of the pattern
    stands for any value, and nothing outside uses a value that the pattern does not return.

    Args:
        gm: The module whose graph changes.
        pattern: A function, module or graph.
        replacement: What takes its place, with as many arguments and results.

    Returns:
        The matches, in the order of the graph.

    Raises:
        AssertionError: The replacement has another number of arguments or results.
    """
    return [Match(r.anchor, r.nodes_map) for r in _replace(gm, pattern, replacement, [], False)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: list[Filter] | None = None,
    ignore_literals: bool = False,
) -> list[ReplacedPatterns]:
    """Replace as :func:`replace_pattern` does the parts for which all filters return True.

    Args:
        gm: The module whose graph changes.
        pattern: A function, module or graph.
        replacement: What takes its place, with as many arguments and results.
        match_filters: Called with a match, the graph and the pattern's graph.
        ignore_literals: Whether constants of the pattern stand for any constant.
    """
    if replacement is None:
        raise AssertionError("replace_pattern_with_filters: replacement is None: want a function, module or graph")
    return _replace(gm, pattern, replacement, match_filters or [], ignore_literals)
