"""The steps of decoding in order, each begun before the token of the one before is read where a device works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.generation.choice import Chooser
from torchlette.generation.text import CachedText, Text

__all__ = ["Steps"]

Tensor = _C.Tensor


class Steps:
    """Steps of texts.

    On a GPU the step after the next begins at once: its operands are on the device, and the device computes it while
    the host reads and handles the token before. A step that nobody wants is taken back: its place in the cache is
    free, and the generator has its former state. So is one whose weights the caller has written meanwhile.

    Args:
        text: The texts with their prompts.
        choose: The choice of tokens.
        count: The most steps.
        decided: Whether the choice depends on nothing that the host finds in tokens.
        alone: Whether no code of the caller runs between steps.
    """

    def __init__(self, text: Text, choose: Chooser, count: int, decided: bool, alone: bool) -> None:
        """Note what a step is."""
        self._text, self._choose, self._count = text, choose, count
        # Penalties count the tokens of a step, which cannot be taken back.
        self._ahead = decided and isinstance(text, CachedText) and text.device.type != "cpu"
        self._ahead = self._ahead and (alone or choose.used is None)
        self._made = 0
        self._last: Tensor | None = None
        self._begun: Tensor | None = None
        self._draws: tuple[Any, Any] = ((), ())
        self._versions = self._weights() if self._ahead and not alone else 0

    def _compute(self) -> Tensor:
        with no_grad():
            self._choose.allow(self._made)
            if self._last is None:
                tokens = self._text.prompt(self._choose)
                _C.mark_step()
            else:
                tokens = self._text.extend(self._last, self._choose)
            tokens.copy_to_host_async()
        return tokens

    def next(self) -> Tensor:
        """Return the tokens of the next step, int64 [rows, 1], and begin the one after."""
        tokens = self._compute() if self._begun is None else self._begun
        self._last, self._begun = tokens, None
        self._made += 1
        if self._ahead and self._made < self._count:
            before = _C._rng_state()
            self._begun = self._compute()
            self._draws = before, _C._rng_state()
        return tokens

    def take_back(self) -> None:
        """Undo the step that has begun, if there is one."""
        if self._begun is None:
            return
        assert isinstance(self._text, CachedText)
        self._begun = None
        self._text.rewind(self._text.length - 1)
        before, after = self._draws
        if _C._rng_state() == after:
            _C._set_rng_state(before)

    @contextmanager
    def watched(self, finished: list[bool]) -> Iterator[None]:
        """Take the step that has begun back if the body writes weights of the model; ``finished`` is before it."""
        writes = _C._writes()
        yield
        if self._begun is None or _C._writes() == writes or self._weights() == self._versions:
            return
        self._versions = self._weights()
        self.take_back()
        self._choose.finish(finished)

    def _weights(self) -> int:
        """Return how often weights of the model were written."""
        assert isinstance(self._text, CachedText)
        return self._text.written()
