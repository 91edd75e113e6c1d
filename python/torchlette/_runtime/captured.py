"""Functions that are captured and called again without running their Python code.

A call belongs to a *family* by its arguments without their elements, and in the family to a signature: the tensors'
dtypes, devices, layouts and need of gradients, the thread's modes, and all Python numbers, words and flags that the
function can reach through its closure, its globals, and the objects and modules there. The first call of a signature
runs the function. The second captures it. Later ones record the captured program.
docs/internals/captured-functions.md says more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import struct
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import AsyncInCompileError, InvalidHandleError, NotSupportedError, Unsupported
from torchlette._runtime.levels import levels
from torchlette._runtime.nested import replaced
from torchlette._runtime.regions import Context, Stance, is_async, like
from torchlette._runtime.supplied import Supply
from torchlette.autograd import walks
from torchlette.autograd.graph import packs_saved_tensors

__all__ = ["CapturingContext", "Limit", "capturing", "forget_all", "traced"]

#: Kinds of arguments, and signatures of one kind, that are remembered.
MAX_FAMILIES = 64
#: How far, and in how long containers, numbers are looked for.
MAX_DEPTH, MAX_ITEMS = 4, 4096
#: The longest list whose items are compared at each call. Longer ones are mostly records of losses.
MAX_WATCHED = 32

_CONSTANTS = (bool, int, float, str, bytes, type(None), _C.dtype, _C.device)
#: Names by which code reads what an optimizer supplies at each call. A function that has one is guarded by the numbers.
_READS_OPTIONS = frozenset(("param_groups", "defaults", "get_last_lr", "_last_lr", "get_lr", "state_dict"))
#: The flag of types that are made by Python code, and packages whose classes do not change.
_HEAP_TYPE = 1 << 9
_LIBRARIES = frozenset("torchlette builtins typing abc collections functools types enum dataclasses numpy".split())
_PLAIN = frozenset((bool, int, str, bytes, type(None), _C.dtype, _C.device, _C.Size))


class Limit:
    """``torch._dynamo.config.recompile_limit``: the programs that a function may have."""

    programs = 8


class _Capturing:
    """Whether a capture is in progress, and how often all programs were forgotten."""

    now = False
    generation = 0

    @staticmethod
    def begin() -> bool:
        """Begin a capture; return what :meth:`end` takes."""
        inner, _Capturing.now = _Capturing.now, True
        _C._suspend_captured(1)
        return inner

    @staticmethod
    def end(inner: bool) -> None:
        """End a capture."""
        _Capturing.now = inner
        _C._suspend_captured(-1)


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """Run code on placeholders: captured functions run, and reads are refused."""
    inner = _Capturing.begin()
    before = _C._enter_compiled(False, True)
    try:
        yield
    finally:
        _C._set_compiled(before)
        _Capturing.end(inner)


def traced(tensors: list[_C.Tensor], call: Callable[[list[_C.Tensor]], list[_C.Tensor]]) -> int:
    """Return the number of the program that ``call`` records on placeholders of ``tensors``; it gives the results."""
    stand_ins = _C._trace_begin(tensors)
    try:
        with capturing():
            results = call(stand_ins)
    except BaseException:
        _C._trace_end(None)
        raise
    number: int = _C._trace_end(results)[0]
    return number


def forget_all() -> None:
    """Forget all programs: every function starts anew."""
    _Capturing.generation += 1
    for function in _functions:
        function.last = None


class _Slot:
    """The place of a tensor in a captured result."""

    __slots__ = ("index", "is_argument")

    def __init__(self, is_argument: bool, index: int) -> None:
        self.is_argument, self.index = is_argument, index


class _Program:
    """A captured function of one signature."""

    def __init__(self, number: int, result: Any, made: int, flushes: bool, supply: Supply) -> None:
        self.number, self.result, self.made, self.flushes, self.supply = number, result, made, flushes, supply
        self.single = type(result) is _Slot and not result.is_argument

    def __del__(self, free: Callable[[int], None] = _C._captured_free) -> None:
        free(self.number)

    def call(self, tensors: list[_C.Tensor], torch: bool) -> tuple[bool, Any]:
        """Record the program; return whether it fits the tensors, and the result."""
        evaluated = self.supply.evaluate()
        if evaluated is None:
            return False, None
        values, numbers = evaluated
        outs = _C._captured_call(self.number, tensors, numbers, self.made, torch)
        if outs is None:
            return False, None
        if self.flushes:
            _C.flush()
        self.supply.commit(values)
        return True, outs[0] if self.single else self.assembled(tensors, outs)

    def assembled(self, tensors: Sequence[_C.Tensor], outs: Sequence[_C.Tensor]) -> Any:
        """Return the result of the function: arguments, and what the program made, in their places."""
        return replaced(self.result, _Slot, lambda s: (tensors if s.is_argument else outs)[s.index])

    def plain(self) -> bool:
        """Return whether a call takes tensors only, and leaves nothing to do after it."""
        return not self.flushes and self.supply.is_empty()


class _Signature:
    """What is known of one signature."""

    def __init__(self) -> None:
        self.programs: list[_Program] = []
        self.staged = False  # no program ever fits


class _Uncapturable(Exception):
    """An argument whose contents are in no key."""


def _known_by(value: Any) -> Any:
    """Return a number, word or flag as a key, and the identity of another object. A float is known by its bits: -0.0 is
    another number than 0.0, and a NaN is itself.
    """
    if type(value) is float:
        return struct.pack("<d", value)
    return value if isinstance(value, _CONSTANTS) else id(value)


#: A table, and the names of some of its entries.
_Entries = tuple[Mapping[Any, Any], tuple[Any, ...]]


class _Family:
    """The calls whose arguments differ in their tensors only, and what the function reaches in them."""

    def __init__(self, roots: list[Any]) -> None:
        self.signatures: dict[Any, _Signature] = {}
        self._cells: list[types.CellType] = []
        self._lists: list[list[Any]] = []
        self._constants: list[_Entries] = []
        self._leaves: list[_C.Tensor] = []  # whose need of a gradient is compared
        # The number of the last call's state, and those of all states.
        self._number = -1
        #: All that is watched, with what the last call found there, for ``_C._unchanged``.
        self.watched: tuple[Any, ...] = ()
        self._numbers: dict[Any, int] = {}
        # Entries of tables by identity, and lengths of containers.
        self._entries: list[_Entries] = []
        self._values: list[Any] = []
        self._containers: list[Any] = []
        self._seen: dict[int, Any] = {}  # holds the objects, whose identity is in the key
        self._names: set[str] = set()  # in the code of the functions
        self._classes: dict[type, set[str]] = {}  # of the user: the names that are watched
        self._groups: list[tuple[dict[str, Any], frozenset[str]]] = []
        self._extend(roots, 0)

    def _extend(self, objects: list[Any], depth: int) -> None:
        """Watch what a call can read of objects."""
        known = len(self._groups)
        for value in objects:
            self._reach(value, depth)
        self._reach_classes()
        for group, supplied in self._groups[known:]:
            skip = supplied if not self._names & _READS_OPTIONS else ()
            self._watch(group, [name for name in group if name not in skip])
        self._lengths = _C._lengths(self._containers)

    def state(self) -> int | None:
        """Return a number for the numbers, words and flags that the function reaches, -1 where it met too many others;
        None where it reaches other objects now.
        """
        if self._number >= 0 and _C._unchanged(self.watched):
            return self._number
        if not _C._holds(self._entries, self._values) or _C._lengths(self._containers) != self._lengths:
            return None
        try:
            read = [cell.cell_contents for cell in self._cells]
            read += [t.requires_grad for t in self._leaves]
            for items in self._lists:
                read.append(len(items))
                read += items
            found = [table[name] for table, names in self._constants for name in names]
        except (KeyError, ValueError):
            return None
        flat = read + found
        new = [v for v in flat if not isinstance(v, _CONSTANTS) and id(v) not in self._seen]
        if new and len(self._numbers) < MAX_FAMILIES:
            self._extend(new, 1)
            return self.state()
        key = tuple(map(_known_by, flat)), tuple(map(type, flat))
        number = self._numbers.get(key, -1)
        if number < 0 and len(self._numbers) < MAX_FAMILIES:
            number = self._numbers[key] = len(self._numbers)
        self._number = number
        self.watched = _C._watched(
            entries=self._entries,
            values=self._values,
            containers=self._containers,
            lengths=self._lengths,
            cells=self._cells,
            leaves=self._leaves,
            lists=self._lists,
            read=read,
            constants=self._constants,
            found=found,
        )
        return number

    def compute_options(self) -> None:
        """Compute the options of optimizers that are tensors: a capture looks at their numbers."""
        for group, _ in self._groups:
            for value in group.values():
                if isinstance(value, _C.Tensor):
                    before = _C._set_compiled(0)
                    value.tolist()
                    _C._set_compiled(before)

    def _reach(self, value: Any, depth: int) -> None:
        """Watch what a call can read of ``value``."""
        from torchlette.nn.modules.module import Module
        from torchlette.optim.optimizer import Optimizer

        if id(value) in self._seen or depth > MAX_DEPTH:
            return
        self._seen[id(value)] = value
        for kind in (value if isinstance(value, type) else type(value)).__mro__:
            if kind.__flags__ & _HEAP_TYPE and kind.__module__.partition(".")[0] not in _LIBRARIES:
                self._classes.setdefault(kind, set())
        if isinstance(value, types.MethodType | types.MethodWrapperType):
            self._reach(value.__self__, depth)
            self._reach(getattr(value, "__func__", None), depth)
        elif isinstance(value, functools.partial):
            self._all((value.func, value.args, value.keywords), depth)
        elif isinstance(value, types.FunctionType):
            self._function(value, depth)
        elif isinstance(value, _Function):  # what it knows of its calls decides nothing
            self._reach(value.fn, depth)
        elif isinstance(value, Module):
            for module in value.modules():
                self._watch(vars(module))
                for table in (module._parameters, module._buffers, module._modules):
                    self._tensors(table)
                for hooks in (
                    module._forward_pre_hooks,
                    module._forward_hooks,
                    module._backward_pre_hooks,
                    module._backward_hooks,
                ):
                    self._length(hooks)
        elif isinstance(value, Optimizer):
            self._length(value.param_groups)
            for group in value.param_groups:
                self._seen[id(group)] = group
                self._length(group["params"])
                self._groups.append((group, value._supplied()))
            self._tensors(value.state)
            for entry in value.state.values():
                self._tensors(entry)
        elif isinstance(value, (list, tuple, set)):
            if isinstance(value, list) and len(value) <= MAX_WATCHED:
                self._lists.append(value)
                if depth == MAX_DEPTH:
                    self._seen.update((id(v), v) for v in value)
            self._all(value, depth)
        elif isinstance(value, dict):
            self._length(value)  # an entry more may hide the attribute of a class
            self._watch(value)
            self._all(value.values(), depth)
        elif isinstance(value, _C.Tensor):
            if value.is_leaf:
                self._leaves.append(value)
        elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, _C.Tensor)):
            self._reach(vars(value), depth)

    def _reach_classes(self) -> None:
        """Watch what the functions use of the classes that they reach: attributes, and methods with what these use."""
        found = True
        while found:
            found = False
            for kind, done in list(self._classes.items()):
                table = vars(kind)
                names = [n for n in table if n not in done and (n in self._names or n in ("forward", "__call__"))]
                if names:
                    found = True
                    done.update(names)
                    self._watch(table, names)  # type: ignore[arg-type]
                    for name in names:
                        value = table[name]
                        method = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
                        if isinstance(method, types.FunctionType):
                            self._reach(method, 0)

    def _all(self, values: Any, depth: int) -> None:
        for value in values if len(values) <= MAX_ITEMS else ():
            self._reach(value, depth + 1)

    def _function(self, fn: types.FunctionType, depth: int) -> None:
        self._reach(getattr(fn, "__wrapped__", None), depth)
        for cell in fn.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            self._cells.append(cell)
            if not isinstance(value, _CONSTANTS):
                self._reach(value, depth + 1)
                self._seen.setdefault(id(value), value)  # where it is too deep
        self._names.update(fn.__code__.co_names)
        names = [name for name in fn.__code__.co_names if name in fn.__globals__]
        self._watch(fn.__globals__, names)
        self._all([fn.__globals__[name] for name in names], depth)
        self._all((fn.__defaults__ or (), fn.__kwdefaults__ or {}), depth)

    def _length(self, container: Any) -> None:
        self._containers.append(container)

    def _identities(self, table: dict[Any, Any], names: list[Any]) -> None:
        if names:
            self._entries.append((table, tuple(names)))
            self._values.extend(table[name] for name in names)

    def _tensors(self, table: dict[Any, Any]) -> None:
        """Watch that a table of parameters, buffers or state has the same entries."""
        self._length(table)
        self._identities(table, list(table))
        for tensor in table.values():
            if isinstance(tensor, _C.Tensor):
                self._leaves.append(tensor)

    def _watch(self, table: dict[Any, Any], names: Any = None) -> None:
        """Watch the numbers, words and flags of a table, and which objects its other entries are."""
        names = list(table if names is None else names)
        found = [n for n in names if isinstance(table[n], _CONSTANTS)]
        self._identities(table, [n for n in names if not isinstance(table[n], _CONSTANTS)])
        if found:
            self._constants.append((table, tuple(found)))


def _flatten(value: Any, tensors: list[_C.Tensor], objects: list[Any]) -> Any:
    """Return ``value`` as a key, and add its tensors and the objects that are in the key by identity."""
    kind = type(value)
    if isinstance(value, _C.Tensor):
        for i, t in enumerate(tensors):
            if t is value:
                return i
        tensors.append(value)
        return len(tensors) - 1
    if kind in _PLAIN:
        return kind, value
    if kind is float:
        return kind, struct.pack("<d", value)
    if isinstance(value, (list, tuple)):
        return kind, tuple([_flatten(v, tensors, objects) for v in value])
    if isinstance(value, dict):
        return kind, tuple(value), tuple([_flatten(v, tensors, objects) for v in value.values()])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, f.name, None) for f in dataclasses.fields(value)]
        return kind, tuple([_flatten(part, tensors, objects) for part in parts])
    if hasattr(kind, "__array_interface__") or isinstance(value, (bytearray, memoryview)):
        raise _Uncapturable
    objects.append(value)
    return kind, id(value)


def _structure(args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[_C.Tensor], objects: list[Any]) -> Any:
    """Return the arguments of a call as :func:`_flatten` does; different tensors are known by their number."""
    if not kwargs:
        for arg in args:
            if type(arg) is not _C.Tensor:
                break
            tensors.append(arg)
        else:
            if len(args) == 1 or len(set(map(id, args))) == len(args):
                return len(args)
        tensors.clear()
    return _flatten((args, kwargs), tensors, objects)


def _runs_only() -> bool:
    """Return whether a captured function is to run: inside of ``vmap``, since a program has no mapped operands; inside
    of a backward pass, where a checkpoint repeats a function; and where hooks take what is saved, which would see the
    tensors of the capture.
    """
    return bool(levels() or walks() or packs_saved_tensors())


class _Function:
    """The programs of one function."""

    def __init__(self, fn: Callable[..., Any], context: CapturingContext) -> None:
        if context.strict and is_async(fn) or is_async(getattr(fn, "__self__", fn)):
            raise AsyncInCompileError("a coroutine function cannot be captured: its body runs after the call")
        if inspect.isgeneratorfunction(fn):
            raise Unsupported("a generator function cannot be captured: its body runs after the call")
        self.fn, self.context, self.torch = fn, context, not context.strict
        self.run = context.marked(fn)
        self.families: dict[Any, _Family] = {}
        self.programs, self.generation = 0, _Capturing.generation
        #: The last call, for ``_C._captured_again``; None where it needed more than a program on tensors.
        self.last: tuple[Any, ...] | None = None
        _functions.add(self)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function: its program where there is one."""
        if Stance.eager or _Capturing.now or _runs_only():
            return self.run(*args, **kwargs)
        if self.generation != _Capturing.generation:
            self.families, self.programs, self.generation = {}, 0, _Capturing.generation
            self.last = None
        tensors: list[_C.Tensor] = []
        objects: list[Any] = []
        try:
            structure = _structure(args, kwargs, tensors, objects)
        except _Uncapturable:
            return self.run(*args, **kwargs)
        family = self.families.get(structure)
        state = family.state() if family is not None else None
        if family is None or state is None:
            self._forget(structure)
            if len(self.families) < MAX_FAMILIES:
                family = self.families[structure] = _Family([*self.context.roots_of(self.fn), *objects])
                state = family.state()
        layouts = _C._signature(tensors)
        if family is None or state is None or state < 0 or layouts is None:
            return self.run(*args, **kwargs)
        key = layouts, state
        known = family.signatures.get(key)
        if known is None:
            if len(family.signatures) < MAX_FAMILIES:
                family.signatures[key] = _Signature()
            return self.run(*args, **kwargs)
        for program in known.programs:
            try:
                fits, result = self._replay(program, tensors)
            except InvalidHandleError:  # the engine was reset
                self._forget(structure)
                return self.run(*args, **kwargs)
            if fits:
                plain = isinstance(structure, int) and program.plain()
                self.last = self._as_last(program, family.watched, layouts) if plain else None
                return result
        if known.staged or self.programs >= self.limit() or not all(t.is_contiguous() for t in tensors):
            return self.run(*args, **kwargs)
        family.compute_options()
        try:
            program = self._capture(args, kwargs, tensors)
        except Exception as error:
            if self.context.strict and not isinstance(error, NotSupportedError):
                raise
            known.staged = True  # what the function did is undone: run it, and let it raise by itself
            return self.run(*args, **kwargs)
        fits, result = self._replay(program, tensors)
        if not fits:
            known.staged = True
            return self.run(*args, **kwargs)
        known.programs.append(program)
        self.programs += 1
        return result

    def limit(self) -> int:
        """Return how many programs the function may have."""
        return Limit.programs if self.context.limit is None else self.context.limit

    def _as_last(self, program: _Program, watched: tuple[Any, ...], layouts: bytes) -> tuple[Any, ...]:
        """Return what the next call needs to be served like this one."""
        return _C._last_call(
            watched=watched,
            layouts=layouts,
            number=program.number,
            results=program.made,
            single=program.single,
            torch=self.torch,
            mark=self.context.mark,
            program=program,
        )

    def _forget(self, structure: Any) -> None:
        self.last = None
        family = self.families.pop(structure, None)
        if family is not None:
            self.programs -= sum(len(known.programs) for known in family.signatures.values())

    def _replay(self, program: _Program, tensors: list[_C.Tensor]) -> tuple[bool, Any]:
        if not self.context.mark:
            return program.call(tensors, self.torch)
        before = _C._enter_compiled(True, False)
        try:
            return program.call(tensors, self.torch)
        finally:
            _C._set_compiled(before)

    def _capture(self, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[_C.Tensor]) -> _Program:
        """Run the function on placeholders, and capture what it records."""
        stand_ins = _C._trace_begin(tensors)
        by_id = {id(t): stand_in for t, stand_in in zip(tensors, stand_ins, strict=True)}
        leaves: list[_C.Tensor] = []
        supply = Supply()
        Supply.set_current(supply)
        inner = _Capturing.begin()
        before = _C._enter_compiled(self.context.mark, True)
        try:
            inner_args, inner_kwargs = replaced((args, kwargs), _C.Tensor, lambda t: by_id[id(t)])
            result = self.fn(*inner_args, **inner_kwargs)
            # An argument that is returned is the caller's tensor.
            replaced(result, _C.Tensor, lambda t: None if any(t is s for s in stand_ins) else leaves.append(t))
        except BaseException:
            _C._trace_end(None)
            raise
        finally:
            _C._set_compiled(before)
            _Capturing.end(inner)
            Supply.set_current(None)
        number, made, flushes = _C._trace_end(leaves)
        places = {id(t): _Slot(True, i) for i, t in enumerate(stand_ins)}
        count = itertools.count()
        for t, was_made in zip(leaves, made, strict=True):
            if was_made:
                places[id(t)] = _Slot(False, next(count))
        shape = replaced(result, _C.Tensor, lambda t: places.get(id(t), t))
        return _Program(number, shape, next(count), flushes, supply)


#: All captured functions.
_functions: weakref.WeakSet[_Function] = weakref.WeakSet()


class CapturingContext(Context):
    """How functions are captured."""

    #: The number of programs that a function may have; None for ``torch._dynamo.config.recompile_limit``.
    limit: int | None = None
    #: The objects whose numbers and tables are compared at each call, with what they reach; None: the function's.
    #: What only the function reaches stays as it was at the capture.
    roots: tuple[Any, ...] | None = None

    def roots_of(self, fn: Callable[..., Any]) -> tuple[Any, ...]:
        """Return where the search for what a call of ``fn`` depends on begins."""
        return (fn,) if self.roots is None else self.roots

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls ``fn``, or its program."""
        function, again = _Function(fn, self), _C._captured_again

        def captured(*args: Any, **kwargs: Any) -> Any:
            last = function.last
            if last is not None and not kwargs:
                found = again(last, args)
                if type(found) is list:
                    return last[-1].assembled(args, found)
                if found is not None:
                    return found
            return function.call(args, kwargs)

        return like(captured, fn)
