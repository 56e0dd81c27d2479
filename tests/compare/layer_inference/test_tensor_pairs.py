"""Tensors of functions of two frameworks pair by what they hold, in whatever order they are given."""

from __future__ import annotations

from msprobe.compare.layer_inference.tensor_pairs import tensor_partners
from msprobe.compare.layer_inference.tensor_signature import TensorSignature, tensor_signatures
from tests.compare.dumps import tensor


def signature(largest: float, shape: tuple[int, ...] = (4,)) -> TensorSignature:
    (result,) = tensor_signatures(tensor(largest, shape=shape), 1)
    return result


IMAGE, WEIGHT, BIAS, MEAN, VARIANCE = (signature(9.0, (2, 4)), *(signature(number) for number in (1.0, 2.0, 3.0, 5.0)))
MINDSPORE = [IMAGE, WEIGHT, BIAS, MEAN, VARIANCE]
PYTORCH = [IMAGE, MEAN, VARIANCE, WEIGHT, BIAS]


def test_running_statistics_stand_before_or_after_the_weights() -> None:
    assert tensor_partners(MINDSPORE, PYTORCH) == {0: 0, 1: 3, 2: 4, 3: 1, 4: 2}


def test_a_wrong_tensor_pairs_with_what_it_should_be() -> None:
    wrong = [IMAGE, signature(7.0), BIAS, MEAN, VARIANCE]
    assert tensor_partners(wrong, PYTORCH) == tensor_partners(MINDSPORE, PYTORCH)


def test_equal_tensors_keep_their_order() -> None:
    assert tensor_partners([WEIGHT, WEIGHT, BIAS], [WEIGHT, WEIGHT, BIAS]) == {0: 0, 1: 1, 2: 2}


def test_shapes_decide_where_values_do_not() -> None:
    assert tensor_partners(
        [signature(1.0, (3,)), signature(2.0, (5,))], [signature(4.0, (5,)), signature(8.0, (3,))]
    ) == {
        0: 1,
        1: 0,
    }


def test_what_is_left_over_has_no_partner() -> None:
    assert tensor_partners([IMAGE], [IMAGE, WEIGHT]) == {0: 0}
    assert tensor_partners([WEIGHT, IMAGE], [IMAGE]) == {0: 1}
