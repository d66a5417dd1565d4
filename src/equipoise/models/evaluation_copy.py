"""A copy of the modules around the same weights, so that evaluation never changes the original's mode."""

import copy
from collections import OrderedDict
from types import MethodType
from typing import Any

import torch
from torch import nn

CONTAINERS = (list, tuple, set, dict, OrderedDict)


def eval_replica(module: nn.Module) -> nn.Module:
    """Copy a tree of modules in evaluation mode; parameters, buffers and hooks are shared with the original.

    Only the modules are new, so a copy costs little, and what is changed on it leaves the original alone, which other
    threads may be using. A compiled module is copied uncompiled.
    """
    return _copied(module, {})


def _copied(module: nn.Module, copies: dict[int, nn.Module]) -> nn.Module:
    if id(module) in copies:
        return copies[id(module)]
    if isinstance(module, torch.jit.ScriptModule):  # its mode is invisible to Python
        copies[id(module)] = copy.deepcopy(module).eval()
        return copies[id(module)]
    compiled = module._modules.get("_orig_mod")
    if compiled is not None:  # torch.compile's wrapper would call the original
        copies[id(module)] = _copied(compiled, copies)
        return copies[id(module)]
    copies[id(module)] = replica = type(module).__new__(type(module))
    for child in module.children():
        _copied(child, copies)
    replica.__dict__.update({name: _moved(value, copies) for name, value in module.__dict__.items()})
    replica.__dict__.update(training=False, _compiled_call_impl=None)
    return replica


def _moved(value: Any, copies: dict[int, nn.Module]) -> Any:
    """Return an attribute as the copy holds it: new containers, and the copy's own modules and bound methods."""
    if isinstance(value, nn.Module):
        return copies.get(id(value), value)
    if isinstance(value, MethodType) and id(value.__self__) in copies:
        return MethodType(value.__func__, copies[id(value.__self__)])
    if type(value) not in CONTAINERS:
        return value

    def entry(value: Any) -> Any:
        return _moved(value, copies) if isinstance(value, nn.Module | MethodType) else value

    if isinstance(value, dict):
        return type(value)((key, entry(each)) for key, each in value.items())
    return type(value)(map(entry, value))
