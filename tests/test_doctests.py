"""Every example in the documentation of the package is run as it stands there."""

import doctest
import importlib
import inspect
import pkgutil
import sys

import pytest
from sklearn.base import BaseEstimator

import gaussian_transform as gt

NAMES = ["gaussian_transform", *(found.name for found in pkgutil.walk_packages(gt.__path__, "gaussian_transform."))]
WITH_EXAMPLES = [name for name in NAMES if ">>>" in inspect.getsource(importlib.import_module(name))]


@pytest.fixture(autouse=True)
def quiet_plots(monkeypatch, tmp_path):
    """Figures go nowhere and are closed; files are written to a folder that goes away."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name):
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0
    assert results.attempted > 0


def public_functions():
    """Functions and estimators that the package, or a module it shows, says are public."""
    modules = [value for name in gt.__all__ if inspect.ismodule(value := getattr(gt, name))]
    for module in (gt, *modules):
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if inspect.isfunction(value) or (inspect.isclass(value) and issubclass(value, BaseEstimator)):
                yield pytest.param(value, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("function", list(public_functions()))
def test_everything_public_has_an_example(function):
    assert any(found.examples for found in doctest.DocTestFinder().find(function, function.__name__))
