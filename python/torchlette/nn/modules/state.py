"""Saving and loading a module's state."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from torchlette import _C
from torchlette._compat.__future__ import get_swap_module_params_on_conversion
from torchlette._runtime.swap import swap_tensors
from torchlette.autograd import no_grad
from torchlette.nn.parameter import Parameter, is_lazy
from torchlette.utils.hooks import RemovableHandle

__all__ = ["StateDictMixin"]

# The key, after a module's prefix, of the result of get_extra_state().
_EXTRA_STATE_KEY_SUFFIX = EXTRA_STATE_KEY = "_extra_state"


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The keys that ``load_state_dict`` could not match."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _swap_entry(target: _C.Tensor, value: _C.Tensor, assign: bool) -> None:
    """Swap a parameter or buffer with what its ``module_load`` makes of a loaded tensor."""
    loaded = target.module_load(value, assign=assign)
    if loaded is value or loaded is target:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs "
            "in module_load"
        )
    if isinstance(target, Parameter):
        if isinstance(loaded, Parameter):
            loaded.requires_grad_(target.requires_grad)
        else:
            loaded = Parameter(loaded, requires_grad=target.requires_grad)
    swap_tensors(target, loaded)


class _Extra:
    """The default extra state; a subclass overrides both methods or neither."""

    def get_extra_state(self) -> Any:
        """Return the extra state that ``state_dict`` stores; subclasses override it."""
        raise RuntimeError(
            "Module.get_extra_state: this class keeps no extra state; override get_extra_state and set_extra_state"
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that :meth:`get_extra_state` returned; subclasses override it."""
        raise RuntimeError(
            "Module.set_extra_state: this class keeps no extra state; override get_extra_state and set_extra_state"
        )


class StateDictMixin(_Extra):
    """``state_dict`` and ``load_state_dict`` of :class:`Module`."""

    # Version of the layout of the state dict; subclasses raise it and read it in _load_from_state_dict.
    _version: int = 1

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state is collected."""
        return self._add_hook(self._state_dict_pre_hooks, hook, [], False)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)``, which may edit the state in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return self._add_hook(self._state_dict_hooks, hook, [], False)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Like the public form; a returned dictionary replaces the state dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return self._add_hook(self._state_dict_hooks, hook, [], False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``
        before loading.
        """
        return self._add_hook(self._load_state_dict_pre_hooks, (hook, True), [], False)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        return self._add_hook(self._load_state_dict_pre_hooks, (hook, with_module), [], False)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading."""
        return self._add_hook(self._load_state_dict_post_hooks, hook, [], False)

    # Saving ------------------------------------------------------------------------------

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not _Extra.get_extra_state

    def _saved_members(self) -> dict[str, Any]:
        buffers = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        return {name: value for name, value in {**self._parameters, **buffers}.items() if value is not None}

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add this module's own tensors to ``destination``."""
        for name, value in self._saved_members().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if self._has_extra_state():
            destination[prefix + EXTRA_STATE_KEY] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return an ``OrderedDict`` of path -> tensor that aliases the module's parameters and buffers.

        Args:
            destination: A dictionary to write to; None for a new one.
            prefix: Begins every path.
            keep_vars: Whether the tensors are the parameters themselves, with their histories.
        """
        if args:  # (destination, prefix, keep_vars): the form of old callers
            destination = args[0]
            prefix = args[1] if len(args) > 1 else prefix
            keep_vars = args[2] if len(args) > 2 else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            replaced = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                if replaced is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif replaced is not None:
                destination = replaced
        return destination

    # Loading -----------------------------------------------------------------------------

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Copy this module's own entries of ``state_dict``; mismatches are appended to the lists."""
        for hook, with_module in list(self._load_state_dict_pre_hooks.values()):
            args = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            hook(self, *args) if with_module else hook(*args)
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, target in self._saved_members().items():
            key = prefix + name
            if key in state_dict:
                self._load_entry(name, key, target, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        key = prefix + EXTRA_STATE_KEY
        if self._has_extra_state():
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)
        if strict:
            self._collect_unexpected(state_dict, prefix, unexpected_keys)

    def _collect_unexpected(self, state_dict: dict[str, Any], prefix: str, unexpected_keys: list[str]) -> None:
        members = self._saved_members()
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + EXTRA_STATE_KEY:
                continue
            name, dot, _ = key[len(prefix) :].partition(".")
            if (dot and name not in self._modules) or (not dot and name not in members):
                unexpected_keys.append(key)

    def _load_entry(self, name: str, key: str, target: Any, value: Any, assign: bool, error_msgs: list[str]) -> None:
        if not isinstance(value, _C.Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
            return
        if is_lazy(target):
            return  # the loaded tensor has no shape either
        if value.shape != target.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in "
                f"current model is {target.shape}."
            )
            return
        if target.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the "
                f"current model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the "
                f"state dictionary to their corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        swaps = get_swap_module_params_on_conversion()
        try:
            if swaps:
                with no_grad():
                    _swap_entry(target, value, assign)
            elif assign:
                if isinstance(target, Parameter) and not isinstance(value, Parameter):
                    value = Parameter(value, requires_grad=target.requires_grad)
                setattr(self, name, value)
            else:
                with no_grad():
                    target.copy_(value)
        except Exception as exc:
            action = "swapping" if swaps else "assigning" if assign else "copying"
            error_msgs.append(
                f'While {action} the parameter named "{key}", whose dimensions in the model are {target.shape} and '
                f"whose dimensions in the checkpoint are {value.shape}, an exception occurred : {exc.args}."
            )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the tensors of ``state_dict`` into this module and those below it.

        Args:
            state_dict: Path -> tensor.
            strict: Raise when keys are missing or unexpected.
            assign: Take the tensors themselves instead of copying their values.

        Returns:
            The missing and unexpected keys.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        entries = OrderedDict(state_dict)
        if metadata is not None:
            entries._metadata = metadata  # type: ignore[attr-defined]

        def load(module: StateDictMixin, part: dict[str, Any], prefix: str) -> None:
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(part, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in part.items() if k.startswith(below)}, below)
            incompatible = _IncompatibleKeys(missing, unexpected)
            for hook in list(module._load_state_dict_post_hooks.values()):
                if hook(module, incompatible) is not None:
                    raise RuntimeError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, "
                        "if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, entries, "")
        if strict:
            if unexpected:
                errors.insert(
                    0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected))
                )
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        return _IncompatibleKeys(missing, unexpected)
