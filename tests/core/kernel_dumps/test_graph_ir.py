"""Printed graphs: names, source lines, ids of forward kernels, inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.core.kernel_dumps.graph_ir import frames, parse_ir, read_ir, with_forward_lines

RECORDED = Path(__file__).parent / "recorded"
FORWARD = """
  %1(x) = PrimFunc_MatMul(%para1_x, %0) cnode_primal_attrs: {unique_id: "17"}
      : (<Tensor>) -> (<Tensor>)
      # Fullname with scope: (Default/MatMul-op2)
      # In file train.py:7~8, 4~27/    def construct(self, x):/
      # In file train.py:8, 4~27/        return self.fc(x)/
}
"""
BACKWARD = """
  %0(CNode_2) = PrimFunc_MatMul(Tensor(shape=[2, 2], value=
[[ 1.0e+00  1.0e+00]
 [ 1.0e+00  1.0e+00]]), %6) cnode_primal_attrs: {forward_node_name: "MatMul_17", forward_unique_id: "17"}
      # Fullname with scope: (Gradients/Default/Grad_MatMul/MatMul-op0)
}
"""


def test_a_kernel_has_its_name_type_and_lines() -> None:
    (node,) = [
        one
        for one in read_ir(RECORDED / "graph/rank_0/graphs/ms_output_trace_code_graph_0.ir").nodes
        if one.name == "Default/fc1-Dense/MatMul-op0"
    ]
    assert node.op == "MatMul"
    assert node.lines[1] == "In file <case>/script.py:34, 22~30/        h = self.relu(self.fc1(x))"


def test_backward_kernels_have_the_lines_of_their_forward_candidate() -> None:
    ir = read_ir(RECORDED / "jit_grad/rank_0/graphs/ms_output_trace_code_graph_2.ir")
    lines = {node.op: node.lines for node in ir.nodes}
    assert any("return ops.tanh(self.fc(x))" in line for line in lines["TanhGrad"])
    assert any("self.bias_add(x, self.bias)" in line for line in lines["BiasAddGrad"])


def test_a_backward_kernel_without_lines_borrows_them_by_id_from_another_graph() -> None:
    _, backward = with_forward_lines([parse_ir(FORWARD.splitlines()), parse_ir(BACKWARD.splitlines())])
    (node,) = backward.nodes
    assert node.name == "Gradients/Default/Grad_MatMul/MatMul-op0"
    assert node.lines[-1].endswith("return self.fc(x)")


def test_inputs_have_positions() -> None:
    ir = read_ir(RECORDED / "graph/rank_0/graphs/ms_output_trace_code_graph_0.ir")
    assert ir.parameters["fc1.weight"] == 4 and ir.parameters["x"] == 7


def test_frames_read_like_those_of_a_call_innermost_first() -> None:
    (node,) = parse_ir(FORWARD.splitlines()).nodes
    assert frames(node.lines) == ["File train.py, line 8, in construct, \n return self.fc(x)"]


def test_a_text_without_kernels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ir").write_text("nothing\n")
    with pytest.raises(ReadError, match="no graph in it"):
        read_ir(tmp_path / "a.ir")
