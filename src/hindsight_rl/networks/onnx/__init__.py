"""Functions that JAX traces, as ONNX models for other runtimes."""

from hindsight_rl.networks.onnx.convert import to_onnx

__all__ = ["to_onnx"]
