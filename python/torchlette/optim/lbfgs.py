"""The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette.autograd import enable_grad, no_grad
from torchlette.optim.line_search import Point, strong_wolfe
from torchlette.optim.optimizer import Optimizer, as_number
from torchlette.optim.recorded import pairs

__all__ = ["LBFGS"]

Tensor = _C.Tensor


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last changes of parameters and gradient (J. Nocedal and S. Wright, 2006, section
    7.2).

    The method decides on the host: each iteration reads a few numbers.

    Args:
        params: Parameters; one group only.
        lr: Length of a step without line search, or the first one tried.
        max_iter: Most iterations of a step.
        max_eval: Most evaluations of the closure in a step; ``max_iter * 1.25`` by default.
        tolerance_grad: Stop when no gradient is larger.
        tolerance_change: Stop when neither parameters nor loss change by more.
        history_size: Number of changes that are kept.
        line_search_fn: "strong_wolfe" or None.
        maximize: Ascend.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        """Check the options."""
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not as_number(lr) >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
            "maximize": maximize,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        """Return the gradients of all parameters as one vector."""
        parts = [_C.zeros_like(p, requires_grad=False) if p.grad is None else p.grad for p in self._params]
        flat = _C.cat([pairs(part).reshape(-1) for part in parts])
        return -flat if self.param_groups[0].get("maximize", False) else flat

    def _move(self, length: float, direction: Tensor) -> None:
        start = 0
        for p in map(pairs, self._params):
            end = start + p.numel()
            p.add_(direction[start:end].view_as(p), alpha=length)
            start = end

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, Point]:
        """Return the closure's result, and the loss and gradient where the parameters are."""
        with enable_grad():
            result = closure()
        loss = float(as_number(result))
        return result, Point(-loss if self.param_groups[0].get("maximize", False) else loss, self._gradient())

    def _direction(self, state: dict[str, Any], gradient: Tensor, history_size: int) -> Tensor:
        """Return minus the gradient times the approximate inverse Hessian, by the two-loop recursion."""
        if state["n_iter"] == 1:
            state.update({"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1})
            return -gradient
        y, s = gradient - state["prev_flat_grad"], state["d"] * as_number(state["t"])
        curvature = y.dot(s)
        changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        if curvature.item() > 1e-10:
            if len(changes) == history_size:
                for history in (changes, steps, ro):
                    history.pop(0)
            changes.append(y)
            steps.append(s)
            ro.append(curvature.reciprocal())
            state["H_diag"] = curvature / y.dot(y)
        al = state.setdefault("al", [None] * history_size)
        q = -gradient
        for i in range(len(changes) - 1, -1, -1):
            al[i] = steps[i].dot(q) * ro[i]
            q = q - changes[i] * al[i]
        d = q * state["H_diag"]
        for i in range(len(changes)):
            d = d + steps[i] * (al[i] - changes[i].dot(d) * ro[i])
        return d

    @no_grad()
    def _run(self, closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        result, here = self._evaluate(closure)
        state["func_evals"] += 1
        if here.steepness() <= group["tolerance_grad"]:
            return result
        self._iterate(closure, state, group, here)
        return result

    def _iterate(self, closure: Callable[[], Any], state: dict[str, Any], group: dict[str, Any], here: Point) -> None:
        evaluations, smallest = 1, group["tolerance_change"]
        for n in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            state["d"] = self._direction(state, here.gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = here.gradient, here.loss
            length = as_number(group["lr"])
            if state["n_iter"] == 1:
                length *= min(1.0, 1.0 / here.gradient.abs().sum().item())
            state["t"] = length
            slope = here.gradient.dot(state["d"]).item()
            if slope > -smallest:
                return
            last = n == group["max_iter"]
            here, used = self._advance(closure, state, here, slope, last, group["max_eval"] - evaluations)
            evaluations += used
            state["func_evals"] += used
            if last or evaluations >= group["max_eval"] or here.steepness() <= group["tolerance_grad"]:
                return
            moved = (state["d"] * state["t"]).abs().max().item()
            if moved <= smallest or abs(here.loss - state["prev_loss"]) < smallest:
                return

    def _advance(
        self, closure: Callable[[], Any], state: dict[str, Any], here: Point, slope: float, last: bool, most: int
    ) -> tuple[Point, int]:
        """Move along the direction; return the point there and the number of evaluations.

        After the last iteration a fixed step's end point is not evaluated, as its loss is not needed.
        """
        search = self.param_groups[0]["line_search_fn"]
        if search is None:
            self._move(state["t"], state["d"])
            return (here, 0) if last else (self._evaluate(closure)[1], 1)
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        begin = [p.clone() for p in self._params]

        def at(length: float) -> Point:
            self._move(length, state["d"])
            point = self._evaluate(closure)[1]
            for p, value in zip(self._params, begin, strict=True):
                p.copy_(value)
            return point

        width = state["d"].abs().max().item()
        here, state["t"], used = strong_wolfe(at, state["t"], state["d"], here, slope, width, most)
        self._move(state["t"], state["d"])
        return here, used
