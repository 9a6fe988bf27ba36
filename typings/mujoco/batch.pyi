# MuJoCo's Python package is compiled and says nothing of its types.
from typing import Any

def __getattr__(name: str) -> Any: ...
