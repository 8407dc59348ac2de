"""CRC-32C, computed by the processor's own instruction.

The only private import of a library: importing the crc32c package reads the metadata of all installed packages, for its version
number, and loads a command-line parser, which takes more than a fifth of a broker's startup. So its extension module is loaded
without the package.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from typing_extensions import Buffer


def _load() -> Callable[[Buffer], int]:
    package = find_spec("crc32c")
    extension = PathFinder.find_spec("_crc32c", package.submodule_search_locations) if package is not None else None
    if extension is None or extension.loader is None:
        raise ImportError("the crc32c package has no extension module: reinstall crc32c")
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    function: Callable[[Buffer], int] = module.crc32c
    return function


crc32c = _load()
