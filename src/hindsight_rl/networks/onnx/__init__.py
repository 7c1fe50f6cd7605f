"""Functions that JAX traces, as ONNX models for other runtimes."""

from hindsight_rl.networks.onnx.convert import symbolic_inputs, to_onnx

__all__ = ["symbolic_inputs", "to_onnx"]
