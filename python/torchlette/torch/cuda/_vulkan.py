"""Asks Vulkan for the memory of GPUs: WebGPU does not tell it."""

from __future__ import annotations

import ctypes
import sys

_INSTANCE_INFO, _PROPERTIES_2, _BUDGET = 1, 1000059006, 1000237000
_DEVICE_LOCAL = 1
_VERSION_1_1 = 1 << 22 | 1 << 12


class _ApplicationInfo(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_uint32),
        ("engine", ctypes.c_char_p),
        ("engine_version", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
    ]


class _InstanceInfo(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.POINTER(_ApplicationInfo)),
        ("layers", ctypes.c_uint32),
        ("layer_names", ctypes.c_void_p),
        ("extensions", ctypes.c_uint32),
        ("extension_names", ctypes.c_void_p),
    ]


class _Heap(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("flags", ctypes.c_uint32)]


class _Budget(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("budget", ctypes.c_uint64 * 16),
        ("usage", ctypes.c_uint64 * 16),
    ]


class _Memory(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("types", ctypes.c_uint32),
        ("type_list", ctypes.c_uint32 * 64),
        ("heaps", ctypes.c_uint32),
        ("heap_list", _Heap * 16),
    ]


class _Properties(ctypes.Structure):
    """The beginning of VkPhysicalDeviceProperties; the limits after it are not read."""

    _fields_ = [("numbers", ctypes.c_uint32 * 5), ("name", ctypes.c_char * 256), ("rest", ctypes.c_uint8 * 1024)]


def _memory_of(vulkan: ctypes.CDLL, gpu: ctypes.c_void_p) -> tuple[int, int]:
    """Return the free and the total bytes of the GPU's own heaps; without budgets all counts as free."""
    budget = _Budget(type=_BUDGET)
    memory = _Memory(type=_PROPERTIES_2, next=ctypes.addressof(budget))
    vulkan.vkGetPhysicalDeviceMemoryProperties2(gpu, ctypes.byref(memory))
    own = [i for i in range(memory.heaps) if memory.heap_list[i].flags & _DEVICE_LOCAL]
    total = sum(memory.heap_list[i].size for i in own)
    known = any(budget.budget[i] for i in own)
    free = sum(max(budget.budget[i] - budget.usage[i], 0) for i in own) if known else total
    return free, total


def heaps() -> dict[str, tuple[int, int]]:
    """Return the free and the total bytes of each GPU by its name; nothing where Vulkan cannot be loaded."""
    try:
        vulkan = ctypes.CDLL("vulkan-1.dll" if sys.platform == "win32" else "libvulkan.so.1")
    except OSError:
        return {}
    application = _ApplicationInfo(api_version=_VERSION_1_1)
    info = _InstanceInfo(type=_INSTANCE_INFO, application=ctypes.pointer(application))
    instance, count = ctypes.c_void_p(), ctypes.c_uint32()
    if vulkan.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)) != 0:
        return {}
    try:
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        gpus = (ctypes.c_void_p * count.value)()
        vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), gpus)
        found: dict[str, tuple[int, int]] = {}
        for handle in gpus:
            gpu, properties = ctypes.c_void_p(handle), _Properties()
            vulkan.vkGetPhysicalDeviceProperties(gpu, ctypes.byref(properties))
            found.setdefault(properties.name.decode(errors="replace"), _memory_of(vulkan, gpu))
        return found
    finally:
        vulkan.vkDestroyInstance(instance, None)
