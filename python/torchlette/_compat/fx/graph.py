"""Graphs: rows of nodes, and the Python code that they stand for."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchlette import _C
from torchlette._compat.fx.node import Argument, Node, Target, map_arg, qualified_name

if TYPE_CHECKING:
    from torchlette._compat.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]


@dataclass
class PythonCode:
    """Code of a ``forward`` function, and the names that it needs."""

    src: str
    globals: dict[str, Any]


class _Names:
    """Gives names that are not in use."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._used: set[str] = set()

    def create(self, candidate: str) -> str:
        """Return the candidate, or the candidate with a number."""
        text = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if text[0].isdigit():
            text = f"_{text}"
        base, number = text, None
        match = re.fullmatch(r"(.*)_(\d+)", text)
        if match is not None and match[1]:
            base, number = match[1], int(match[2])
        name = text
        if number is None:
            number = self._counts.get(base, 0)
            name = f"{base}_{number}" if number else base
        while name in self._used or keyword.iskeyword(name) or hasattr(builtins, name):
            number += 1
            name = f"{base}_{number}"
        self._counts[base] = number
        self._used.add(name)
        return name


class _NodeList:
    """The nodes of a graph in order."""

    def __init__(self, graph: Graph, backward: bool = False) -> None:
        self.graph, self.backward = graph, backward

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = root._prev if self.backward else root._next
        while node is not root:
            if not node._erased:
                yield node
            node = node._prev if self.backward else node._next

    def __reversed__(self) -> _NodeList:
        return _NodeList(self.graph, not self.backward)


class CodeGen:
    """Makes the code of a graph."""

    def code(self, graph: Graph, root_module: str) -> PythonCode:
        """Return the code of ``forward``; ``root_module`` is the name of the module in it."""
        names: dict[str, Any] = {}
        body: list[str] = []
        parameters = [root_module]
        last_use = {user_of: node for node in graph.nodes for user_of in node.all_input_nodes}
        for node in graph.nodes:
            line = self._line(node, root_module, names, parameters)
            freed = [n for n in node.all_input_nodes if last_use[n] is node and node.op != "output"]
            if line:
                body.append(line + (";  " + " = ".join([*map(_repr, freed), "None"]) if freed else ""))
        if not any(node.op == "output" for node in graph.nodes):
            body.append("pass")
        text = "\n".join(f"    {line}" for line in body)
        return PythonCode(f"\n\n\ndef forward({', '.join(parameters)}):\n{text}\n    ", names)

    def _line(self, node: Node, root: str, names: dict[str, Any], parameters: list[str]) -> str:
        def written(value: Any) -> str:
            return _argument(value, names)

        def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
            return ", ".join([*map(written, args), *(f"{k} = {written(v)}" for k, v in kwargs.items())])

        if node.op == "placeholder":
            name = str(node.target)
            parameters.append(name + node._annotation() + (f" = {written(node.args[0])}" if node.args else ""))
            plain = name.lstrip("*")
            return "" if plain == node.name else f"{node.name} = {plain}"
        if node.op == "output":
            return f"return {written(node.args[0])}"
        if node.op == "get_attr":
            return f"{node.name} = {_path(root, str(node.target))}"
        if node.op == "call_module":
            return f"{node.name} = {_path(root, str(node.target))}({arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            self_text = written(node.args[0])
            return f"{node.name} = {self_text}.{node.target}({arguments(node.args[1:], node.kwargs)})"
        if node.target is getattr and len(node.args) == 2 and isinstance(node.args[1], str):
            return f"{node.name} = {written(node.args[0])}.{node.args[1]}"
        form = _OPERATORS.get(node.target)
        if form is not None and not node.kwargs:
            return f"{node.name} = " + form.format(*map(written, node.args))
        return f"{node.name} = {_global(node.target, names)}({arguments(node.args, node.kwargs)})"


#: Functions of :mod:`operator` that code writes as operators.
_OPERATORS: dict[Any, str] = {
    **{
        getattr(operator, name): f"{{}} {sign} {{}}"
        for name, sign in {
            "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
            "matmul": "@", "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^",
            "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
        }.items()
    },
    operator.neg: "-{}", operator.pos: "+{}", operator.invert: "~{}", operator.getitem: "{}[{}]",
}  # fmt: skip


def _repr(node: Node) -> str:
    return node.name


def _path(root: str, path: str) -> str:
    text = root
    for part in path.split("."):
        text += f".{part}" if part.isidentifier() and not keyword.iskeyword(part) else ""
        if not part.isidentifier() or keyword.iskeyword(part):
            text = f'getattr({text}, "{part}")'
    return text


def _global(value: Any, names: dict[str, Any]) -> str:
    """Return the text of a global object: PyTorch's path where it leads to the object, else a name of its own."""
    name = qualified_name(value) if callable(value) else type(value).__name__
    if getattr(builtins, name, None) is value:
        return name
    if name.startswith("torch.") and not name.endswith("__get__"):
        import torchlette.torch as facade

        found: Any = facade
        for part in name.split(".")[1:]:
            found = getattr(found, part, None)
        if found is value:
            names["torch"] = facade
            return name
    base = re.sub(r"\W", "_", name)
    text, count = base, 0
    while text in names and names[text] is not value:
        count += 1
        text = f"{base}_{count}"
    names[text] = value
    return text


def _argument(value: Any, names: dict[str, Any]) -> str:
    """Return the text of an argument."""
    if isinstance(value, Node):
        return value.name
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{_global(type(value), names)}({', '.join(_argument(v, names) for v in value)})"
    if isinstance(value, tuple):
        return f"({', '.join(_argument(v, names) for v in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(_argument(v, names) for v in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_argument(v, names)}" for k, v in value.items()) + "}"
    if isinstance(value, (slice, range)):
        parts = ", ".join(_argument(v, names) for v in (value.start, value.stop, value.step))
        return f"{type(value).__name__}({parts})"
    if isinstance(value, float) and value != value or value in (float("inf"), float("-inf")):
        return f"float('{value}')"
    if isinstance(value, _C.dtype):
        return _global(value, names) if not hasattr(_C, str(value)[6:]) else _dtype(value, names)
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str)):
        return "..." if value is ... else repr(value)
    return _global(value, names)


def _dtype(value: Any, names: dict[str, Any]) -> str:
    import torchlette.torch as facade

    names["torch"] = facade
    return str(value)


class Graph:
    """A row of nodes. :meth:`lint` checks it; :meth:`python_code` is what it means."""

    def __init__(self, owning_module: GraphModule | None = None, tracer_cls: Any = None, tracer_extras: Any = None):
        """Make an empty graph."""
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._names = _Names()
        self._codegen = CodeGen()
        self._tracer_cls, self._tracer_extras, self._owning_module = tracer_cls, tracer_extras, owning_module

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that runs the graph."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: GraphModule | None) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> _NodeList:
        """The nodes in order; the list may be changed while it is read."""
        return _NodeList(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """Return the nodes of a kind and target."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # Making nodes ------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Make a node at the place of insertion, which is the end but in :meth:`inserting_before` and its kin."""
        candidate = name or self._candidate(target)
        made = Node(self, self._names.create(candidate), op, target, args or (), kwargs or {}, type_expr)
        self._insert(made)
        return made

    @staticmethod
    def _candidate(target: Target) -> str:
        if isinstance(target, str):
            text = target.lstrip("*").replace(".", "_")
        else:
            text = getattr(target, "__name__", type(target).__name__)
        text = text.removesuffix("_") if text.startswith("__") else text
        magic = re.fullmatch(r"__(.*)_", text)
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", magic[1] if magic else text).lower()

    def process_inputs(self, *args: Any) -> Any:
        """Return the arguments of a call for the placeholders."""
        return args

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Append an argument."""
        return self.create_node(
            "placeholder", name, () if default_value is ... else (default_value,), {}, None, type_expr
        )

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Append a read of an attribute of the module."""
        return self.create_node("get_attr", qualified_name, (), {}, None, type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Append a call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Append a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, None, type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """Append a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, None, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Append the return of a result."""
        return self.create_node("output", "output", (result,), {}, None, type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda n: n) -> Node:
        """Append a copy of a node of another graph.

        Args:
            node: The other graph's node.
            arg_transform: Returns the node here that stands for one there.
        """
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Append copies of all nodes of a graph; return what its output returns.

        Args:
            g: The other graph.
            val_map: Is filled with the copy of each node.
            return_output_node: Whether the other graph's output node is returned too.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        copy = Graph(tracer_cls=self._tracer_cls)
        values: dict[Node, Node] = {}
        found = copy.graph_copy(self, values, return_output_node=True)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Node):
            made = copy.output(found[0])
            made.meta = dict(found[1].meta)
            values[found[1]] = made
        if memo is not None:
            memo.update({id(old): new for old, new in values.items()})
            memo[id(self)] = copy
        return copy

    # Places ------------------------------------------------------------------------------

    @contextmanager
    def _inserting(self, insert: Callable[[Node], None]) -> Iterator[None]:
        before = self._insert
        self._insert = insert
        try:
            yield
        finally:
            self._insert = before

    def inserting_before(self, n: Node | None = None) -> Any:
        """Return a block in which nodes are made before ``n``; None: at the beginning."""
        return self._inserting(self._root.append if n is None else n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Return a block in which nodes are made after ``n``; None: at the end."""
        place = self._root._prev if n is None else n
        last = [place]

        def insert(node: Node) -> None:
            last[0].append(node)
            last[0] = node

        return self._inserting(insert)

    # Changing ----------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that no other uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        next_node, previous = to_erase._next, to_erase._prev
        previous._next, next_node._prev = next_node, previous  # its own links stay for whoever reads the list
        to_erase._erased = True
        to_erase._set((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes that nothing uses; return whether there were any."""
        self.lint()
        impure, changed = is_impure_node or Node.is_impure, False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def output_node(self) -> Node:
        """Return the node that returns."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def lint(self) -> None:
        """Raise unless every node comes after those that it uses, and names and paths are good."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                if used not in seen:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' was used before it has been defined!")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self._owning_module is not None and node.op in ("get_attr", "call_module"):
                found: Any = self._owning_module
                for part in str(node.target).split("."):
                    if not hasattr(found, part):
                        raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part}")
                    found = getattr(found, part)

    # Code --------------------------------------------------------------------------------

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """Return the code of ``forward``, in which the module is called ``root_module``."""
        return self._codegen.code(self, root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let another object make the code."""
        self._codegen = codegen

    def __str__(self) -> str:
        return "\n".join(["graph():", *(f"    {node.format_node()}" for node in self.nodes)])

    def print_tabular(self) -> None:
        """Print the nodes, one a line."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [[n.op, n.name, n._pretty_print_target(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
