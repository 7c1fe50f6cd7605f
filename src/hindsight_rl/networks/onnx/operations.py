"""What each operation of JAX is in ONNX."""

import string
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.networks.onnx.graph import Graph, sizes

Operation = Callable[[Graph, Any, list[str]], str]
"""(graph, equation of JAX's program, names of its inputs) to the name of its output."""

FARTHEST = np.iinfo(np.int64).max
_SAME = {
    **{"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow"},
    **{"neg": "Neg", "abs": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "sqrt": "Sqrt"},
    **{"exp": "Exp", "log": "Log", "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "erf": "Erf", "logistic": "Sigmoid"},
    **{"eq": "Equal", "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual"},
    **{"and": "And", "or": "Or", "not": "Not", "xor": "Xor"},
}
_REDUCTIONS = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_sum": "ReduceSum"}


def _identity(graph: Graph, equation: Any, inputs: list[str]) -> str:
    return inputs[0]


def _named(operation: str) -> Operation:
    return lambda graph, equation, inputs: graph.add(operation, *inputs)


def _one(graph: Graph, equation: Any) -> str:
    return graph.constant(np.ones((), equation.invars[0].aval.dtype))


def _reshaped(graph: Graph, equation: Any, inputs: list[str]) -> str:
    return graph.reshape(inputs[0], equation.outvars[0].aval.shape)


def _broadcast(graph: Graph, equation: Any, inputs: list[str]) -> str:
    given, wanted = equation.invars[0].aval.shape, equation.params["shape"]
    placed: list[Any] = [1] * len(wanted)
    for axis, size in zip(equation.params["broadcast_dimensions"], given, strict=True):
        placed[axis] = size
    laid_out = graph.reshape(inputs[0], placed) if tuple(placed) != tuple(given) else inputs[0]
    return laid_out if sizes(placed) == sizes(wanted) else graph.expand(laid_out, wanted)


def _product(graph: Graph, equation: Any, inputs: list[str]) -> str:
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left_axes, right_axes = (len(each.aval.shape) for each in equation.invars)
    if not left_batch and tuple(left) == (left_axes - 1,) and tuple(right) == (0,) and right_axes == 2:
        return graph.add("MatMul", *inputs)
    letters = iter(string.ascii_lowercase)
    first, second = [next(letters) for _ in range(left_axes)], [next(letters) for _ in range(right_axes)]
    for one, other in (*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)):
        second[other] = first[one]
    kept = [first[axis] for axis in left_batch]
    kept += [name for axis, name in enumerate(first) if axis not in (*left, *left_batch)]
    kept += [name for axis, name in enumerate(second) if axis not in (*right, *right_batch)]
    return graph.add("Einsum", *inputs, equation=f"{''.join(first)},{''.join(second)}->{''.join(kept)}")


def _select(graph: Graph, equation: Any, inputs: list[str]) -> str:
    which, *cases = inputs
    if len(cases) != 2 or equation.invars[0].aval.dtype != np.bool_:
        raise HindsightError("ONNX export knows choices between two arrays only.")
    return graph.add("Where", which, cases[1], cases[0])


def _argmax(graph: Graph, equation: Any, inputs: list[str]) -> str:
    (axis,) = equation.params["axes"]
    found = graph.add("ArgMax", inputs[0], axis=axis, keepdims=0)
    return graph.cast(found, equation.params["index_dtype"])


def _reduced(operation: str) -> Operation:
    def reduce(graph: Graph, equation: Any, inputs: list[str]) -> str:
        return graph.add(operation, inputs[0], graph.whole(*equation.params["axes"]), keepdims=0)

    return reduce


def _slice(graph: Graph, equation: Any, inputs: list[str]) -> str:
    starts, limits = equation.params["start_indices"], equation.params["limit_indices"]
    steps = equation.params["strides"] or [1] * len(starts)
    ends = [limit if isinstance(limit, int) else FARTHEST for limit in limits]
    axes = range(len(starts))
    return graph.add("Slice", inputs[0], *(graph.whole(*each) for each in (starts, ends, axes, steps)))


def _finite(graph: Graph, equation: Any, inputs: list[str]) -> str:
    odd = graph.add("Or", graph.add("IsNaN", inputs[0]), graph.add("IsInf", inputs[0]))
    return graph.add("Not", odd)


def _convolution(graph: Graph, equation: Any, inputs: list[str]) -> str:
    """In ONNX, pictures and outputs have their channels before height and width."""
    given = equation.params
    if set(given["lhs_dilation"]) != {1} or given["batch_group_count"] != 1:
        raise HindsightError("ONNX export knows no transposed convolutions.")
    picture, kernel, output = given["dimension_numbers"]
    pads = [before for before, _ in given["padding"]] + [after for _, after in given["padding"]]
    made = graph.add(
        "Conv",
        graph.add("Transpose", inputs[0], perm=list(picture)),
        graph.add("Transpose", inputs[1], perm=list(kernel)),
        strides=list(given["window_strides"]),
        pads=pads,
        dilations=list(given["rhs_dilation"]),
        group=given["feature_group_count"],
    )
    return graph.add("Transpose", made, perm=[int(axis) for axis in np.argsort(output)])


OPERATIONS: Mapping[str, Operation] = {
    **{name: _named(operation) for name, operation in _SAME.items()},
    **{name: _reduced(operation) for name, operation in _REDUCTIONS.items()},
    **dict.fromkeys(("stop_gradient", "copy", "copy_p"), _identity),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshaped),
    "broadcast_in_dim": _broadcast,
    "dot_general": _product,
    "select_n": _select,
    "argmax": _argmax,
    "slice": _slice,
    "is_finite": _finite,
    "conv_general_dilated": _convolution,
    "ne": lambda graph, equation, inputs: graph.add("Not", graph.add("Equal", *inputs)),
    "clamp": lambda graph, equation, inputs: graph.add("Min", graph.add("Max", inputs[1], inputs[0]), inputs[2]),
    "concatenate": lambda graph, equation, inputs: graph.add("Concat", *inputs, axis=equation.params["dimension"]),
    "transpose": lambda graph, equation, inputs: graph.add(
        "Transpose", inputs[0], perm=list(equation.params["permutation"])
    ),
    "convert_element_type": lambda graph, equation, inputs: graph.cast(inputs[0], equation.params["new_dtype"]),
    "square": lambda graph, equation, inputs: graph.add("Mul", inputs[0], inputs[0]),
    "rsqrt": lambda graph, equation, inputs: graph.add("Reciprocal", graph.add("Sqrt", inputs[0])),
    "log1p": lambda graph, equation, inputs: graph.add("Log", graph.add("Add", inputs[0], _one(graph, equation))),
    "expm1": lambda graph, equation, inputs: graph.add("Sub", graph.add("Exp", inputs[0]), _one(graph, equation)),
    "integer_pow": lambda graph, equation, inputs: graph.add(
        "Pow", inputs[0], graph.constant(np.asarray(equation.params["y"], equation.invars[0].aval.dtype))
    ),
}
