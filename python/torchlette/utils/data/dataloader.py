"""The data loader."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.spawn
import pickle
import queue
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any

from torchlette import _C
from torchlette._runtime.random import initial_seed
from torchlette.utils.data.by_value import ByValue
from torchlette.utils.data.collate import default_collate, default_convert
from torchlette.utils.data.datapipes.datapipe import IterDataPipe, every
from torchlette.utils.data.datapipes.iter.single import ShardingFilterIterDataPipe, ShufflerIterDataPipe
from torchlette.utils.data.dataset import IterableDataset
from torchlette.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """A worker process's view of itself: its number, seed and dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the :class:`WorkerInfo` inside a worker process, else ``None``."""
    return _worker_info


class _InfiniteConstantSampler(Sampler[None]):
    """The sampler of iterable datasets: one ``None`` for each item wanted."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _check_workers(num_workers: int, prefetch_factor: int | None, persistent_workers: bool, timeout: float) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, "
            "otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


class DataLoader:
    """Batches of a dataset.

    Worker processes are always spawned: a forked child cannot use its parent's engine. The dataset and the loader's
    functions go to them with the program's own classes and functions and the global names that these read; the program
    itself does not run again. Where something cannot be pickled so, workers import the program instead, which needs
    ``if __name__ == "__main__":`` around its entry. Where that fails too, the loader warns and loads the same batches
    in this process.

    Args:
        dataset: A :class:`Dataset` or :class:`IterableDataset`.
        batch_size: Items in a batch; ``None`` gives single items.
        shuffle: Take the items in random order.
        sampler: Order of the items, instead of ``shuffle``.
        batch_sampler: Lists of indices, instead of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: Number of worker processes; 0 loads in this one.
        collate_fn: Makes a batch from a list of items.
        pin_memory: Accepted for compatibility; uploads are staged by the engine.
        drop_last: Leave out a short last batch.
        timeout: Seconds to wait for a worker; 0 waits for ever.
        worker_init_fn: Called with the worker's number at its start.
        multiprocessing_context: "spawn", or nothing.
        generator: Source of randomness of ``shuffle``.
        prefetch_factor: Batches that each worker loads ahead; 2 by default.
        persistent_workers: Keep workers from one pass to the next.
        pin_memory_device: Accepted for compatibility.
        in_order: Return the workers' batches in order.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        """Check the options and make the samplers."""
        _check_workers(num_workers, prefetch_factor, persistent_workers, timeout)
        if multiprocessing_context not in (None, "spawn") and getattr(multiprocessing_context, "_name", "") != "spawn":
            raise ValueError(
                f"DataLoader: multiprocessing_context is wrong: got {multiprocessing_context!r}, want 'spawn'"
            )
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers > 0 else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.multiprocessing_context = multiprocessing_context
        self._pool: _Workers | None = None
        self._alone = False  # workers cannot start
        sampler = self._choose_sampler(shuffle, sampler, batch_sampler)
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None:
            if drop_last:
                raise ValueError(
                    "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
                )
        else:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)

    def _choose_sampler(self, shuffle: bool | None, sampler: Any, batch_sampler: Any) -> Any:
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and sampler is not None:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if isinstance(self.dataset, IterableDataset):
            if isinstance(self.dataset, IterDataPipe) and shuffle is not None:
                for pipe in every(self.dataset):
                    if isinstance(pipe, ShufflerIterDataPipe):
                        pipe.set_shuffle(shuffle)
                shuffle = None
            for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
            return _InfiniteConstantSampler()
        if sampler is not None:
            return sampler
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pool": None}

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _dataset_kind(self) -> int:
        return _DatasetKind.Iterable if isinstance(self.dataset, IterableDataset) else _DatasetKind.Map

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0 or self._alone:
            return self._load_here()
        if self._pool is None:
            try:
                self._pool = _Workers(self)
            except _CannotStart as why:
                self._alone = True
                warnings.warn(
                    f"DataLoader: the {self.num_workers} workers cannot start: {why}: loading in this process",
                    stacklevel=2,
                )
                return self._load_here()
        return self._pool.batches(self._requests())

    def _requests(self) -> Iterator[Any]:
        """Iterate over the requests: indices, or lists of indices."""
        return iter(self._index_sampler)

    def _load_here(self) -> Iterator[Any]:
        fetch = Fetcher(self.dataset, self._auto_collation, self.collate_fn, self.drop_last)
        for request in self._requests():
            try:
                batch = fetch(request)
            except StopIteration:
                return
            yield batch

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            length = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return length
            return length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        requests = self._index_sampler
        if not isinstance(requests, Sized):
            raise TypeError(f"object of type '{type(requests).__name__}' has no len()")
        return len(requests)


class Fetcher:
    """Makes a batch from a request; raises StopIteration when an iterable dataset is at its end."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        """Start an iterable dataset."""
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.items = iter(dataset) if isinstance(dataset, IterableDataset) else None

    def __call__(self, request: Any) -> Any:
        return self.fetch(request)

    def fetch(self, request: Any) -> Any:
        """Return the batch of an index, or of a list of indices."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[request] if self.items is None else next(self.items))
        if self.items is not None:
            batch = list(itertools.islice(self.items, len(request)))
            if not batch or (self.drop_last and len(batch) < len(request)):
                raise StopIteration
            return self.collate_fn(batch)
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(many(request) if callable(many) else [self.dataset[i] for i in request])


class _DatasetKind:
    """The two kinds of datasets: packages make the fetcher of a loader's dataset by it."""

    Map, Iterable = range(2)

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> Fetcher:
        """Return an object whose ``fetch`` takes an index, or the list of a batch's indices, and gives the batch."""
        fetcher = Fetcher(dataset, auto_collation, collate_fn, drop_last)
        fetcher.items = None if kind == _DatasetKind.Map else iter(dataset)
        return fetcher


_END = "end of an iterable dataset"
_STARTED = "started"


class _CannotStart(Exception):
    """Worker processes cannot start; the message gives the reason."""


class _Caught:
    """An error of a worker, as sent to the loader's process."""

    def __init__(self, error: Exception, worker: int) -> None:
        self.kind: type[Exception] = type(error)
        self.text = (
            f"Caught {self.kind.__name__} in DataLoader worker process {worker}.\nOriginal {traceback.format_exc()}"
        )
        try:
            pickle.dumps(self.kind)
        except (AttributeError, TypeError, pickle.PicklingError):
            self.kind = RuntimeError

    def error(self) -> Exception:
        """Return an error of the same class, or a RuntimeError if the class does not take a single message."""
        try:
            return self.kind(_Lines(self.text))
        except Exception:
            return RuntimeError(self.text)


class _Lines(str):
    """A message that KeyError prints unquoted."""

    def __repr__(self) -> str:
        return str(self)


_start = threading.Lock()


class _Process(multiprocessing.context.SpawnProcess):
    """A process that does not import the program."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        spawn: Any = multiprocessing.spawn
        with _start:
            whole = spawn.get_preparation_data
            spawn.get_preparation_data = lambda name: {
                key: value for key, value in whole(name).items() if not key.startswith("init_main")
            }
            try:
                return multiprocessing.context.SpawnProcess._Popen(process_obj)  # type: ignore[attr-defined]
            finally:
                spawn.get_preparation_data = whole


def _divide_pipes(info: WorkerInfo, sweep: int) -> None:
    """Give the worker's pipes its part of the items, and the seeds that all workers have for a pass."""
    if isinstance(info.dataset, IterDataPipe):
        for number, pipe in enumerate(every(info.dataset)):
            if isinstance(pipe, ShardingFilterIterDataPipe):
                pipe.apply_sharding(info.num_workers, info.id)
            elif isinstance(pipe, ShufflerIterDataPipe):
                pipe.set_seed(hash((info.seed - info.id, sweep, number)))


def _work(info: WorkerInfo, what: ByValue | dict[str, Any], dtype: Any, requests: Any, results: Any) -> None:
    """Serve requests ``(pass, number, request)`` until ``None`` comes; run in a worker process."""
    import random

    import torchlette

    global _worker_info
    loader = what.value if isinstance(what, ByValue) else what
    info = WorkerInfo(info.id, info.num_workers, info.seed, loader["dataset"])
    _worker_info = info
    torchlette.set_default_dtype(dtype)
    results.put((-1, -1, info.id, None, _STARTED))
    torchlette.manual_seed(info.seed)
    random.seed(info.seed)
    init = loader.pop("worker_init_fn")
    if init is not None:
        init(info.id)
    current, fetch = -1, None
    while (task := requests.get()) is not None:
        sweep, number, request = task
        try:
            if sweep != current:
                _divide_pipes(info, sweep)
                current, fetch = sweep, Fetcher(**loader)
            results.put((sweep, number, info.id, fetch(request), None))
        except StopIteration:
            results.put((sweep, number, info.id, None, _END))
        except Exception as error:
            results.put((sweep, number, info.id, None, _Caught(error, info.id)))


class _Workers:
    """The worker processes of one loader."""

    def __init__(self, loader: DataLoader) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise SystemExit(1)  # a worker that runs the program again to import it: its parent notices and loads alone
        self.loader = loader
        self.sweep = -1
        self.processes: list[Any] = []
        settings = {
            "dataset": loader.dataset,
            "auto_collation": loader._auto_collation,
            "collate_fn": loader.collate_fn,
            "drop_last": loader.drop_last,
            "worker_init_fn": loader.worker_init_fn,
        }
        try:
            self._start(_Process, ByValue(settings))
        except _CannotStart:
            self._start(multiprocessing.context.SpawnProcess, settings)

    def _start(self, kind: Any, settings: Any) -> None:
        """Start the processes."""
        context: Any = multiprocessing.get_context("spawn")
        self.results = context.Queue()
        self.requests = [context.Queue() for _ in range(self.loader.num_workers)]
        for i, requests in enumerate(self.requests):
            info = WorkerInfo(i, self.loader.num_workers, initial_seed() + i, None)
            rest = (settings, _C.get_default_dtype(), requests, self.results)
            process = kind(target=_work, args=(info, *rest), daemon=True)
            try:
                process.start()
            except (AttributeError, TypeError, ValueError, pickle.PicklingError) as error:
                self.stop()
                raise _CannotStart(f"the dataset or a function of the loader cannot be pickled ({error})") from None
            self.processes.append(process)
        self._wait_for_the_start()

    def _wait_for_the_start(self) -> None:
        """Wait until each worker has imported what it needs, or one has ended."""
        waiting = len(self.processes)
        while waiting:
            try:
                waiting -= self.results.get(timeout=0.2)[4] == _STARTED
            except queue.Empty:
                if not all(process.is_alive() for process in self.processes):
                    self.stop()
                    raise _CannotStart(
                        'one has ended while it imported the program: put the entry under if __name__ == "__main__"'
                    ) from None

    def batches(self, wanted: Iterator[Any]) -> Iterator[Any]:
        """Iterate over the batches of one pass, in order unless the loader says otherwise."""
        self.sweep += 1
        numbered = enumerate(wanted)
        ended: set[int] = set()
        out: dict[int, int] = {}  # number -> worker, of what is being loaded
        ready: dict[int, Any] = {}
        # In order, batch k always comes from worker k modulo their number: the workers' random draws are then
        # reproducible.
        turn = itertools.cycle(range(len(self.processes)))

        def send_next() -> None:
            if len(ended) < len(self.processes):
                self._send(next(worker for worker in turn if worker not in ended), numbered, out)

        try:
            for _ in range(len(self.processes) * (self.loader.prefetch_factor or 1)):
                send_next()
            expected = 0
            while out or ready:
                while expected not in out and expected not in ready and (out or ready):
                    expected += 1  # the number of an end that a worker reported
                if self.loader.in_order and expected in ready:
                    send_next()
                    batch = ready.pop(expected)
                    if isinstance(batch, _Caught):
                        raise batch.error()
                    yield batch
                    expected += 1
                    continue
                number, worker, batch, error = self._receive()
                del out[number]
                if error == _END:
                    ended.add(worker)
                    send_next()
                elif self.loader.in_order:
                    ready[number] = batch if error is None else error
                elif error is not None:
                    raise error.error()
                else:
                    if worker not in ended:
                        self._send(worker, numbered, out)
                    yield batch
        finally:
            if not self.loader.persistent_workers:
                self.stop()

    def _send(self, worker: int, numbered: Iterator[tuple[int, Any]], out: dict[int, int]) -> None:
        task = next(numbered, None)
        if task is not None:
            out[task[0]] = worker
            self.requests[worker].put((self.sweep, *task))

    def _receive(self) -> tuple[int, int, Any, Any]:
        waited = 0.0
        while True:
            try:
                sweep, number, worker, batch, error = self.results.get(timeout=1.0)
            except queue.Empty:
                waited += 1.0
                dead = [p.pid for p in self.processes if not p.is_alive()]
                if dead:
                    raise RuntimeError(
                        f"DataLoader worker (pid(s) {', '.join(map(str, dead))}) exited unexpectedly"
                    ) from None
                if self.loader.timeout and waited >= self.loader.timeout:
                    raise RuntimeError(f"DataLoader timed out after {self.loader.timeout} seconds") from None
                continue
            if sweep == self.sweep:  # drop the batches of an abandoned pass
                return number, worker, batch, error

    def stop(self) -> None:
        """End the processes."""
        self.loader._pool = None
        for requests in self.requests:
            requests.put(None)
        for process in self.processes:
            process.join(timeout=5.0)
            if process.is_alive():
                process.terminate()
        self.processes = []


class _BaseDataLoaderIter:
    """The class of PyTorch's iterators of loaders, for annotations. Here ``iter(loader)`` is a generator."""


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """As the base, of loaders without workers."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """As the base, of loaders with workers."""
