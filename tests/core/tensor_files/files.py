"""Tensor files of kernels, encoded independently of the readers: dumps of ACL by the package protobuf."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {"string": 9, "uint64": 4, "int32": 5, "bytes": 12}
_DEFINITION = """
Shape        repeated uint64 dim 1
OriginalOp   string name 1, int32 output_index 2, int32 data_type 3, int32 format 4
OpOutput     int32 data_type 1, int32 format 2, Shape shape 3, OriginalOp original_op 4, bytes data 5, uint64 size 6
             Shape original_shape 7, int32 sub_format 8
OpInput      int32 data_type 1, int32 format 2, Shape shape 3, bytes data 4, uint64 size 5, Shape original_shape 6
             int32 sub_format 7
OpBuffer     int32 buffer_type 1, bytes data 2, uint64 size 3
OpAttr       string name 1, string value 2
DumpData     string version 1, uint64 dump_time 2, repeated OpOutput output 3, repeated OpInput input 4
             repeated OpBuffer buffer 5, string op_name 6, repeated OpAttr attr 7
"""
"""The messages of ``dump_data.proto``, with label, type, name and number of each field; enumerations are numbers."""


class Tensor(NamedTuple):
    """A tensor of a file: elements as stored, number of type and format, the shape in the program."""

    stored: Any
    kind: int
    format: int = 2
    original: Sequence[int] = ()


@cache
def dump_data() -> Any:
    """Return the class of the message DumpData."""
    file = descriptor_pb2.FileDescriptorProto(name="dump_data.proto", package="toolkit.dump", syntax="proto3")
    for line in _DEFINITION.strip().splitlines():
        words = line.split(maxsplit=1) if line[0] != " " else [file.message_type[-1].name, line.strip()]
        if line[0] != " ":
            file.message_type.add(name=words[0])
        for one in words[1].split(","):
            *label, kind, name, number = one.split()
            field = file.message_type[-1].field.add(name=name, number=int(number), label=3 if label else 1)
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type, field.type_name = 11, f".toolkit.dump.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("toolkit.dump.DumpData"))


def acl_file(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], inline: bool = False, buffers: Sequence[bytes] = ()
) -> bytes:
    """Return the bytes of a dump of ACL; with ``inline`` the header holds the data."""
    dump = dump_data()(version="2.0", dump_time=1234567, op_name="MatMul")
    dump.attr.add(name="any", value="thing")
    for ours, theirs in ((inputs, dump.input), (outputs, dump.output)):
        for one in ours:
            _fill(theirs.add(), one, inline)
    for content in buffers:
        dump.buffer.add(buffer_type=0, size=len(content), **({"data": content} if inline else {}))
    for added in dump.output:
        added.original_op.name = "matmul"
    data = b"" if inline else b"".join([*(_bytes(one) for one in (*inputs, *outputs)), *buffers])
    return framed(dump) + data


def framed(dump: Any) -> bytes:
    """Return a header with its length in front."""
    header: bytes = dump.SerializeToString()
    return struct.pack("<Q", len(header)) + header


def _fill(added: Any, one: Tensor, inline: bool) -> None:
    added.data_type, added.format = one.kind, one.format
    added.shape.dim.extend(np.shape(one.stored))
    added.original_shape.dim.extend(one.original)
    added.size = len(_bytes(one))
    if inline:
        added.data = _bytes(one)


def _bytes(one: Tensor) -> bytes:
    return np.ascontiguousarray(one.stored).tobytes()


def atb_file(one: Tensor) -> bytes:
    """Return the bytes of a file of ATB."""
    data = _bytes(one)
    dims = ",".join(map(str, np.shape(one.stored)))
    lines = ["$Version=1.0", "$Object.Count=1", f"$Object.Length={len(data)}"]
    lines += [f"dtype={one.kind}", f"format={one.format}", f"dims={dims}"]
    return "\n".join([*lines, f"$Object.data=0,{len(data)}", "$End=1"]).encode() + b"\n" + data


def bfloat16(values: Any) -> Any:
    """Return the bits of exactly representable values."""
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
