"""Model files run by onnxruntime: every node recorded, inputs read or drawn, the first wrong node named."""
