"""From a function that JAX traces to an ONNX model, one operation after another."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.export import symbolic_shape
from jax.extend.core import ClosedJaxpr, Literal

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.networks.onnx.graph import BATCH, IR_VERSION, OPSET, Graph
from hindsight_rl.networks.onnx.operations import OPERATIONS

_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Where an operation that is a program of its own keeps it."""
Inputs = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape without the batch, and the type, of each input by name."""


def symbolic_inputs(inputs: Inputs) -> list[jax.ShapeDtypeStruct]:
    """Inputs with a leading axis of any length."""
    (batch,) = symbolic_shape(BATCH)
    return [jax.ShapeDtypeStruct((batch, *shape), np.dtype(kind)) for shape, kind in inputs.values()]


def to_onnx(function: Callable[..., Any], inputs: Inputs, output: str, properties: Mapping[str, str]) -> bytes:
    """The model of a function from these inputs, batches all of them, to one output; `properties` are its metadata."""
    graph = Graph()
    helper = graph.onnx.helper
    traced = jax.jit(function).trace(*symbolic_inputs(inputs)).jaxpr
    graph.begin(next(iter(inputs)))
    (result,) = _convert(graph, traced, list(inputs))
    graph.nodes.append(helper.make_node("Identity", [result], [output]))
    shown = [
        helper.make_tensor_value_info(name, graph.type_of(kind), [BATCH, *shape])
        for name, (shape, kind) in inputs.items()
    ]
    out: Any = traced.out_avals[0]
    answered = helper.make_tensor_value_info(output, graph.type_of(out.dtype), [BATCH, *out.shape[1:]])
    body = helper.make_graph(graph.nodes, "policy", shown, [answered], initializer=graph.constants)
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(body, producer_name="hindsight-rl", opset_imports=[opset], ir_version=IR_VERSION)
    helper.set_model_props(model, dict(properties))
    try:
        graph.onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # of several kinds, none of them the user's to know
        raise HindsightError(f"This policy cannot be written as ONNX: {gist(error)}.") from error
    return model.SerializeToString()


def _convert(graph: Graph, program: ClosedJaxpr, inputs: list[str]) -> list[str]:
    """Add the operations of a program, and return the names of what it returns."""
    names: dict[Any, str] = dict(zip(program.jaxpr.invars, inputs, strict=True))
    names |= {each: graph.constant(value) for each, value in zip(program.jaxpr.constvars, program.consts, strict=True)}

    def name_of(atom: Any) -> str:
        kind = atom.aval.dtype
        return graph.constant(np.asarray(atom.val, kind)) if isinstance(atom, Literal) else names[atom]

    for equation in program.jaxpr.eqns:
        given = [name_of(atom) for atom in equation.invars]
        operation = equation.primitive.name
        inner = next((equation.params[key] for key in _CALLS if key in equation.params), None)
        if operation in OPERATIONS:
            results = [OPERATIONS[operation](graph, equation, given)]
        elif inner is not None:
            closed = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
            results = _convert(graph, closed, given)
        else:
            raise HindsightError(
                f"ONNX export does not know the operation '{operation}' of this policy; StableHLO has it: "
                "--formats stablehlo."
            )
        names |= dict(zip(equation.outvars, results, strict=True))
    return [name_of(atom) for atom in program.jaxpr.outvars]
