"""onnx-fuser: fuses Conv, BatchNormalization and LeakyRelu in ONNX models, says why not, and proves the result."""
