"""What comes before a kernel: the dialect's macros in the words of OpenCL C and of CUDA C++."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from singa_core.kernels.c.dialect import TYPES

OPENCL: Final = r"""
#define KERNEL(name) __kernel void name
#define KERNEL_IN_GROUPS(name, x, y, z) \
    __kernel __attribute__((reqd_work_group_size(x, y, z))) void name
#define GLOBAL __global
#define SHARED __local
#define FUNCTION static inline
#define RESTRICT restrict
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define GID ((IDX)get_global_id(0))
#define GID_Y ((IDX)get_global_id(1))
#define GID_Z ((IDX)get_global_id(2))
#define LID ((int)get_local_id(0))
#define LID_Y ((int)get_local_id(1))
#define GROUP ((IDX)get_group_id(0))
#define GROUP_Y ((IDX)get_group_id(1))
#define GROUP_Z ((IDX)get_group_id(2))
#define GROUP_SIZE ((int)get_local_size(0))
/* mul_hi takes five times as long on one driver */
#define MULHI(a, b) ((uint)((ulong)(uint)(a) * (uint)(b) >> 32))
#define BITS_F32(x) as_uint(x)
#define F32_BITS(x) as_float(x)
#define BITS_F64(x) as_ulong(x)
#define F64_BITS(x) as_double(x)
#define FILL_int(x) ((int8)(x))
#define FILL_uint(x) ((uint8)(x))
#define CONTRACT _Pragma("OPENCL FP_CONTRACT ON")
#define NO_CONTRACT _Pragma("OPENCL FP_CONTRACT OFF")
"""

CUDA: Final = r"""
typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint;
typedef unsigned long long ulong;
#define long long long
#define KERNEL(name) extern "C" __global__ void name
#define KERNEL_IN_GROUPS(name, x, y, z) \
    extern "C" __global__ void __launch_bounds__((x) * (y) * (z)) name
#define GLOBAL
#define SHARED __shared__
#define FUNCTION static __device__ inline
#define RESTRICT __restrict__
#define BARRIER __syncthreads()
#define GID ((IDX)blockIdx.x * (IDX)blockDim.x + (IDX)threadIdx.x)
#define GID_Y ((IDX)blockIdx.y * (IDX)blockDim.y + (IDX)threadIdx.y)
#define GID_Z ((IDX)blockIdx.z * (IDX)blockDim.z + (IDX)threadIdx.z)
#define LID ((int)threadIdx.x)
#define LID_Y ((int)threadIdx.y)
#define GROUP ((IDX)blockIdx.x)
#define GROUP_Y ((IDX)blockIdx.y)
#define GROUP_Z ((IDX)blockIdx.z)
#define GROUP_SIZE ((int)blockDim.x)
#define MULHI(a, b) __umulhi((uint)(a), (uint)(b))
#define BITS_F32(x) __float_as_uint(x)
#define F32_BITS(x) __uint_as_float(x)
#define BITS_F64(x) ((ulong)__double_as_longlong(x))
#define F64_BITS(x) __longlong_as_double((long)(x))
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
/* a kernel without it is compiled with -fmad=false */
#define CONTRACT
#define NO_CONTRACT
"""

# The first kernel that finds a fault is told of, since later ones may read what it has not written;
# of its work items any one is. The first word is 2 where the third is an unsigned number.
FAULTS: Final = """
#define FAULT_FOUND(value) \\
    { if (!fault[0]) { fault[1] = site; fault[2] = (long)(value); \\
        fault[0] = (value) - (value) - 1 > 0 ? 2 : 1; } }
"""

# Halves without a type for them: bits in, bits out, ties to even; NaN stays NaN.
HALVES: Final = """
FUNCTION float f16_to_float(ushort h)
{
    uint sign = (uint)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return F32_BITS(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u) return F32_BITS(sign | ((rest << 13) + 0x38000000u));
    float tiny = (float)rest * 5.9604644775390625e-8f; /* exact: a multiple of 2**-24 */
    return F32_BITS(sign | BITS_F32(tiny));
}
FUNCTION ushort float_to_f16(float f)
{
    uint bits = BITS_F32(f), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (ushort)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return (ushort)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* subnormal: adding 0.5 leaves the digits at the end */
        float shifted = F32_BITS(rest) + 0.5f;
        return (ushort)(sign | (BITS_F32(shifted) - 0x3f000000u));
    }
    rest += 0xfffu + ((rest >> 13) & 1u);
    return (ushort)(sign | ((rest - 0x38000000u) >> 13));
}
FUNCTION float bf16_to_float(ushort h) { return F32_BITS((uint)h << 16); }
FUNCTION ushort float_to_bf16(float f)
{
    uint bits = BITS_F32(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u);
    return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
"""

_ELEMENT = """
#define LD_{code}(p, i) (({computed})(p)[i])
#define ST_{code}(p, i, v) ((p)[i] = ({stored})(v))
"""
_HALF = """
#define LD_{code}(p, i) {code}_to_float((p)[i])
#define ST_{code}(p, i, v) ((p)[i] = float_to_{code}(v))
"""

# Elements of a vector need no alignment but that of an element. Loads of this kind are faster than
# vload8 in hot loops on some drivers. There are no vectors of 64 bytes (16 floats, 8 doubles): with
# them one driver calls functions that expect them elsewhere, which ends the process.
_VECTORS = """
typedef float8 float8u __attribute__((aligned(4)));
#define VLD_f32(p, i) (*(const __global float8u *)((p) + (i)))
#define VST_f32(p, i, v) (*(__global float8u *)((p) + (i)) = (v))
#define FILL_float(x) ((float8)(x))
"""


def memory(codes: Iterable[str]) -> str:
    """Loads and stores for elements of these types."""
    codes = sorted(codes)
    text = HALVES if {"f16", "bf16"} & set(codes) else ""
    for code in codes:
        kind, number = TYPES[code]
        form = _HALF if code in ("f16", "bf16") else _ELEMENT
        text += form.format(code=code, stored=kind, computed=number)
    return text


def cl(codes: Iterable[str], *, vectors: bool) -> str:
    """The prelude in OpenCL C, for kernels with operands of these types."""
    codes = set(codes)
    doubles = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    text = OPENCL + FAULTS + memory(codes) + (_VECTORS if vectors else "")
    if "f64" in codes:
        text = doubles + text
    return text


def cuda(codes: Iterable[str]) -> str:
    """The prelude in CUDA C++, without any header."""
    return CUDA + FAULTS + memory(codes)


__all__ = ["cl", "cuda"]
