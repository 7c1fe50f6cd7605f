"""An ONNX graph under construction. The leading axis of what goes in may have any length; all else is fixed."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from hindsight_rl.core.errors import HindsightError

OPSET = 18
"""The version of ONNX's operations, which runtimes have known since 2023."""
IR_VERSION = 10
BATCH = "batch"
"""The name of the axis of any length."""


def import_onnx() -> ModuleType:
    """The package, or a sentence."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ModuleNotFoundError:
        raise HindsightError("ONNX files need onnx: pip install 'hindsight-rl[export]'.") from None
    return onnx


class Graph:
    """Collects nodes and constants."""

    def __init__(self) -> None:
        self.onnx = import_onnx()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output, whose name is returned."""
        name = self._name(operation)
        self.nodes.append(self.onnx.helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """An array as a constant."""
        name = self._name("constant")
        self.constants.append(
            self.onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)
        )
        return name

    def whole(self, *values: int) -> str:
        """A constant list of whole numbers, as shapes and axes are given."""
        return self.constant(np.array(values, np.int64))

    def cast(self, name: str, kind: Any) -> str:
        """The same numbers as another type."""
        return self.add("Cast", name, to=self.type_of(kind))

    def reshape(self, name: str, shape: Sequence[Any]) -> str:
        """The same numbers in another shape, in which at most one axis has any length."""
        return self.add("Reshape", name, self.whole(*sizes(shape)))

    def expand(self, name: str, shape: Sequence[Any]) -> str:
        """Repeated along axes of length one, up to a shape."""
        if all(isinstance(size, int) for size in shape):
            return self.add("Expand", name, self.whole(*shape))
        parts = [self._batch if not isinstance(size, int) else self.whole(size) for size in shape]
        return self.add("Expand", name, self.add("Concat", *parts, axis=0))

    def begin(self, first_input: str) -> None:
        """The length of the batch is that of an input's leading axis."""
        self._batch = self.add("Slice", self.add("Shape", first_input), self.whole(0), self.whole(1))

    def type_of(self, kind: Any) -> int:
        """ONNX's number for a type."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind.lower()}_{self._count}"


def sizes(shape: Sequence[Any]) -> list[int]:
    """A shape in numbers, with -1 for the axis of any length."""
    found = [size if isinstance(size, int) else -1 for size in shape]
    named = [str(size) for size in shape if not isinstance(size, int)]
    if len(named) > 1 or any(name != BATCH for name in named):
        raise HindsightError(f"ONNX export cannot follow an array of the shape {tuple(map(str, shape))}.")
    return found
