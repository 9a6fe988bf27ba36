# MuJoCo's Python module is compiled and comes without stubs: its names are taken as they are.
from typing import Any

def __getattr__(name: str) -> Any: ...
