"""A Program is data: it prints, compares and goes through JSON."""

import json

import numpy as np
import pytest

from singa_core.dtype import float32, int64
from singa_core.program import Instruction, Program
from singa_core.spec import Spec

X, N = Spec((2, 3), "float32"), Spec((), "float32")


def example(number=2.0, **changes):
    parts = {
        "specs": (X, N, N, X, X, Spec((3,), "float32")),
        "instructions": (
            Instruction("mul", (), (0, 1), (3,)),
            Instruction("add", (), (3, 2), (4,)),
            Instruction("sum", (("axis", (0,)), ("keepdims", False)), (4,), (5,)),
        ),
        "args": (0,),
        "cells": (1,),
        "constants": {2: np.array(number, np.float32)},
        "results": (5,),
        "updates": ((0, 2),),
    }
    return Program(**(parts | changes))


def test_it_prints_a_line_for_everything():
    assert str(example(scalars=(1,), arg_updates=((0, 4),))).splitlines() == [
        "%0 = arg 0: float32 (2, 3)",
        "%1 = cell 0: float32 ()",
        "%1 = scalar 0: float32 ()",
        "%2 = const 2.0: float32 ()",
        "%3 = mul(%0, %1): float32 (2, 3)",
        "%4 = add(%3, %2): float32 (2, 3)",
        "%5 = sum(%4, axis=(0,), keepdims=False): float32 (3,)",
        "result %5",
        "cell 0 := %2",
        "arg 0 := %4",
    ]


def test_what_no_instruction_writes_and_what_outlives_the_last():
    program = example(scalars=(1,), arg_updates=((0, 4),))
    assert program.sources == {0, 1, 2}
    assert program.ends == (5, 2, 4)


def test_programs_are_compared_by_value():
    assert example() == example()
    assert example() != example(number=3.0)
    assert example(number=np.nan) == example(number=np.nan)
    assert example() != example(results=())
    assert example() != "a program"
    many = {2: np.arange(4.0)}
    specs = (X, N, Spec((4,), "float64"), X, X, N)
    assert example(constants=many, specs=specs) == example(constants=dict(many), specs=specs)
    with pytest.raises(TypeError, match="unhashable"):
        hash(example())


def test_a_program_with_other_instructions_keeps_the_rest():
    program = example()
    shorter = program.with_instructions(program.instructions[:1])
    assert shorter.instructions == program.instructions[:1]
    assert shorter.args == program.args
    assert program == example()


def test_json_has_everything_in_plain_words():
    cast = Instruction("cast", (("dtype", int64), ("axes", (0, (1, 2)))), (0,), (1,))
    program = Program((X, X), (cast,), args=(0,), constants={1: np.array([1.5, 2.5])})
    told = json.loads(json.dumps(program.to_json()))
    assert told["specs"] == [["float32", [2, 3]], ["float32", [2, 3]]]
    assert told["instructions"][0]["attrs"] == {"dtype": "int64", "axes": [0, [1, 2]]}
    assert told["constants"] == {"1": [1.5, 2.5]}
    assert cast.options == {"dtype": int64, "axes": (0, (1, 2))}
    assert float32.name == told["specs"][0][0]
