"""The Triton kernels: the bits of the reference, in Triton's interpreter everywhere and on CUDA where there is one."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from gradgate import gates
from gradgate.gates import reference
from gradgate.gates.key import window
from support.crossed import each_once, some_fast

triton = pytest.importorskip("triton", reason="triton is not installed; it comes with CUDA builds of torch")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of the infinities that tests put in
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
KEY = gates.key(seed=0, stream="graddrop", name="encoder.layer.0.output.dense.weight", draw=7)
WINDOW = window(0.2, 0.9)
SCALE = 1.0 / 0.7
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Equal bit for bit, but for the payload of NaNs, in which torch's own back ends differ."""
    one, other = (torch.where(t.isnan(), torch.nan, t).contiguous() for t in (one.cpu(), other.cpu()))
    return torch.equal(*(t.view(BITS[t.element_size()]) for t in (one, other)))


def values_of(numel: int, dtype: torch.dtype, device: str = "cpu") -> Tensor:
    generator = torch.Generator().manual_seed(numel)
    return torch.randn(numel, generator=generator, dtype=torch.float64).to(dtype).to(device)


def every_half(dtype: torch.dtype) -> Tensor:
    """All 65536 numbers of a half type: subnormal ones, infinities and NaNs among them."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)


def specials(dtype: torch.dtype) -> Tensor:
    limits = torch.finfo(dtype)
    few = [0.0, -0.0, limits.tiny, -limits.tiny / 2, limits.max, -limits.max, torch.inf, -torch.inf, torch.nan]
    return torch.tensor(few, dtype=dtype).repeat(50)


@pytest.fixture(scope="module")
def interpreted() -> Iterator[ModuleType]:
    """A copy of the back end that Triton interprets; the package's own stays as it is."""
    from triton.runtime import interpreter

    path = Path(gates.__file__).with_name("cuda.py")
    spec = importlib.util.spec_from_file_location("interpreted_gates", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        spec.loader.exec_module(module)
    builder = interpreter.InterpreterBuilder

    def cast(self: Any, source: Any, to: Any) -> Any:
        types = {triton.language.bfloat16: torch.bfloat16, triton.language.float32: torch.float32}
        if {source.dtype.scalar, to.scalar} != set(types):
            return builder.cast_impl(self, source, to)
        words = torch.from_numpy(source.data.copy()).view(types[source.dtype.scalar]).to(types[to.scalar])
        data = words.view(torch.uint16) if words.itemsize == 2 else words
        return interpreter.TensorHandle(data.numpy(), to.scalar)

    with pytest.MonkeyPatch.context() as patch:
        # The interpreter's own casts cut a float32 off where the hardware rounds it, and lose subnormal numbers.
        patch.setattr(builder, "create_fp_trunc", cast)
        patch.setattr(builder, "create_fp_ext", cast)
        yield module


# For a GPU that is not here.

_POINTERS = {torch.float32: "*fp32", torch.float64: "*fp64", torch.bfloat16: "*bf16", torch.float16: "*fp16"}
_WORDS = {2: "*i16", 4: "*i32", 8: "*i64"}
_KEYS = dict.fromkeys(("low", "key_1", "key_2", "first", "width"), "i32")


def kernels(dtype: torch.dtype) -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """The types of each kernel's arguments, and its constants."""
    from gradgate.gates import cuda

    block = {"block": cuda._BLOCK}
    many = block | {"element": cuda._TYPES[dtype], "alignment": 16, "chunk": cuda._CHUNK}
    words = _WORDS[dtype.itemsize]
    return {
        "_gate_one": ({"values": _POINTERS[dtype], "numel": "i64", **_KEYS, "scale_bits": "i64"}, block),
        "_restore": ({"values": words, "before": words, "numel": "i64", **_KEYS}, block),
        "_gate_many": ({"table": "*i64", "owners": "*i64", **_KEYS, "scale_bits": "i64"}, many),
    }


@some_fast("capability", [75, 90], [75])  # a T4, an H100 or H200
@some_fast("dtype", DTYPES, [torch.float32, torch.bfloat16])  # a T4 has no bfloat16 of its own
def test_each_kernel_compiles_to_machine_code(
    dtype: torch.dtype, capability: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from gradgate.gates import cuda

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for name, (types, constants) in kernels(dtype).items():
        kernel = getattr(cuda, name)
        places = {(kernel.arg_names.index(constant),): value for constant, value in constants.items()}
        types = {argument: types.get(argument, "constexpr") for argument in kernel.arg_names}
        target = GPUTarget("cuda", capability, 32)
        compiled = triton.compile(ASTSource(kernel, types, places), target=target, options={"num_warps": cuda._WARPS})
        assert compiled.asm["cubin"], name


# In the interpreter.


@each_once("dtype", DTYPES, "numel", [1, 7, 2048, 2049, 5000])
def test_the_kernel_gives_the_bits_of_the_reference(interpreted: ModuleType, numel: int, dtype: torch.dtype) -> None:
    values = values_of(numel, dtype)
    for scale, offset in ((1.0, 0), (SCALE, 5), (-1.25, 2**32 - 17), (0.0, 3 * 2**32 - 1)):
        arguments = (*WINDOW, scale, KEY, offset)
        gated = interpreted.apply_(values.clone(), *arguments)
        assert same_bits(gated, reference.apply_(values.clone(), *arguments))


@each_once("scale", [1.0, SCALE, 1e-5, 7e4], "dtype", [torch.bfloat16, torch.float16])
def test_every_half_precision_number_is_rounded_as_torch_does(
    interpreted: ModuleType, dtype: torch.dtype, scale: float
) -> None:
    arguments = (*WINDOW, scale, KEY, 0)
    gated = interpreted.apply_(every_half(dtype), *arguments)
    assert same_bits(gated, reference.apply_(every_half(dtype), *arguments))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_the_kernel_drops_is_a_clean_zero(interpreted: ModuleType, dtype: torch.dtype) -> None:
    arguments = (*WINDOW, SCALE, KEY, 0)
    gated = interpreted.apply_(specials(dtype), *arguments)
    assert same_bits(gated, reference.apply_(specials(dtype), *arguments))
    dropped = gated[~gates.mask(gated.numel(), lo=0.2, hi=0.9, key=KEY)]
    assert not dropped.view(BITS[dtype.itemsize]).any()


@pytest.mark.parametrize("edges", [(0.0, 0.5), (0.5, 1.0), (2.0**-32, 1.0), (0.0, 2.0**-32), (0.9, 0.95)], ids=str)
def test_windows_at_either_end_pass_what_the_reference_passes(
    interpreted: ModuleType, edges: tuple[float, float]
) -> None:
    arguments = (*window(*edges), 1.0, KEY, 0)
    gated = interpreted.apply_(torch.ones(3000), *arguments)
    assert same_bits(gated, reference.apply_(torch.ones(3000), *arguments))


def parts_of(device: str) -> list[tuple[Tensor, int, int]]:
    """Tensors of all types and many sizes, some from an odd address on, with their keys and offsets."""
    sizes = (1, 0, 7, 768, 2048, 2049, 17_000, 768 * 3 + 1)
    offsets = (0, 5, 2**32 - 3, 0, 2**33 - 2048, 9, 2**32 - 9_000, 5 * 2**32 - 1)
    odd = {7, 2049}
    parts = []
    for dtype in DTYPES:
        for number, (size, offset) in enumerate(zip(sizes, offsets, strict=True)):
            values = values_of(size + 1, dtype, device)[1:] if size in odd else values_of(size, dtype, device)
            parts.append((values, gates.key(seed=1, stream="each", name=f"{number}", draw=0), offset))
    return parts


def check_each(parts: list[tuple[Tensor, int, int]], before: list[Tensor], scale: float) -> None:
    for (gated, key, offset), values in zip(parts, before, strict=True):
        assert same_bits(gated, reference.apply_(values.cpu(), *WINDOW, scale, key, offset))


@pytest.mark.parametrize("aligned", [True, False])
def test_one_launch_gates_each_tensor_under_its_own_key(interpreted: ModuleType, aligned: bool) -> None:
    parts = [part for part in parts_of("cpu") if not aligned or part[0].data_ptr() % 16 == 0]
    before = [values.clone() for values, _, _ in parts]
    interpreted.apply_each_(parts, *WINDOW, SCALE)
    check_each(parts, before, SCALE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernel_restores_what_the_reference_restores(interpreted: ModuleType, dtype: torch.dtype) -> None:
    new, before = values_of(5000, dtype), every_half(torch.float16)[:5000].to(dtype)
    expected = reference.restore_(new.clone(), before, *WINDOW, KEY, 2**32 - 100)
    interpreted.restore_(new, before, *WINDOW, KEY, 2**32 - 100)
    assert same_bits(new, expected)


def test_a_launch_for_no_tensor_is_none(interpreted: ModuleType) -> None:
    interpreted.apply_each_([], *WINDOW, SCALE)
    interpreted.apply_each_([(torch.empty(0), KEY, 0)], *WINDOW, SCALE)


# Compiled for a GPU, which needs none.


WORDS = dict.fromkeys(("low", "key_1", "key_2", "first", "width"), "i32")
ONE = {"values": "*{}", "numel": "i64", **WORDS, "scale_bits": "i64"}
MANY = {"table": "*i64", "owners": "*i64", "first": "i32", "width": "i32", "scale_bits": "i64"}


def compiled(kernel: str, dtype: str, signature: dict[str, str], alignment: int = 16) -> str:
    """The kernel's PTX for a device of compute capability 8.0."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from gradgate.gates import cuda

    settings: dict[str, Any] = {"block": cuda._BLOCK}
    if kernel == "_gate_many":
        element = {str(element): element for element in cuda._TYPES.values()}[dtype]
        settings |= {"element": element, "alignment": alignment, "chunk": cuda._CHUNK}
    signature = {name: kind.format(dtype) for name, kind in signature.items()}
    source = ASTSource(
        getattr(cuda, kernel),
        signature=signature | dict.fromkeys(settings, "constexpr"),
        constexprs=settings,
        attrs={(0,): [["tt.divisibility", alignment]]} if alignment == 16 else {},
    )
    built = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": cuda._WARPS})
    return str(built.asm["ptx"])


@each_once("dtype", ["fp32", "fp64", "bf16", "fp16"], "kernel", ["_gate_one", "_gate_many"])
def test_kernels_compile_to_wide_loads_and_exact_products(
    kernel: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    ptx = compiled(kernel, dtype, ONE if kernel == "_gate_one" else MANY)
    wide = "v2.b64" if dtype == "fp64" else "v4.b32"
    assert f"ld.global.{wide}" in ptx
    assert f"st.global.{wide}" in ptx
    assert ".ftz" not in ptx  # which would lose subnormal numbers
    assert ".local" not in ptx


@pytest.mark.parametrize(("kernel", "signature"), [("_gate_one", ONE), ("_gate_many", MANY)])
def test_kernels_compile_for_small_numbers_and_odd_addresses(
    kernel: str, signature: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    small = {name: "i32" if kind == "i64" else kind for name, kind in signature.items()}
    assert "st.global" in compiled(kernel, "bf16", small, alignment=2)


# On a GPU.


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_gate_on_cuda_has_the_bits_of_the_cpu(dtype: torch.dtype) -> None:
    for numel in (1, 33, 2048, 100_003):
        for scale, offset in ((1.0, 0), (SCALE, 2**32 - 17), (-1.25, 5)):
            gated = gates.apply_(values_of(numel, dtype, "cuda"), lo=0.2, hi=0.9, scale=scale, key=KEY, offset=offset)
            assert same_bits(gated, reference.apply_(values_of(numel, dtype), *WINDOW, scale, KEY, offset))
    for values in (specials(dtype), every_half(dtype)) if dtype.itemsize == 2 else (specials(dtype),):
        gated = gates.apply_(values.cuda(), lo=0.2, hi=0.9, scale=SCALE, key=KEY)
        assert same_bits(gated, reference.apply_(values.clone(), *WINDOW, SCALE, KEY, 0))


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_restoring_on_cuda_has_the_bits_of_the_cpu(dtype: torch.dtype) -> None:
    new, before = values_of(100_003, dtype), values_of(100_003, dtype).flip(0)
    restored = gates.restore_(new.cuda(), before.cuda(), lo=0.2, hi=0.9, key=KEY, offset=2**32 - 17)
    assert same_bits(restored, reference.restore_(new, before, *WINDOW, KEY, 2**32 - 17))


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_strides_on_cuda_count_as_on_the_cpu(dtype: torch.dtype) -> None:
    values = values_of(360, dtype).view(6, 5, 4, 3)
    expected = gates.apply_(values.clone(), lo=0.3, hi=1.0, scale=1.5, key=KEY)
    for layout in (
        values.cuda().contiguous(memory_format=torch.channels_last),
        values.cuda().permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        torch.stack([values, values], dim=-1).cuda()[..., 0],
    ):
        assert not layout.is_contiguous()
        assert gates.apply_(layout, lo=0.3, hi=1.0, scale=1.5, key=KEY) is layout
        assert same_bits(layout, expected)


@on_cuda
def test_many_tensors_on_cuda_have_the_bits_of_the_cpu_and_never_wait_for_it() -> None:
    parts = parts_of("cuda")
    before = [values.clone() for values, _, _ in parts]
    tensors, keys, offsets = zip(*parts, strict=True)
    torch.cuda.set_sync_debug_mode("error")
    try:
        gates.apply_each_(tensors, lo=0.2, hi=0.9, scale=SCALE, keys=keys, offsets=offsets)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    check_each(parts, before, SCALE)


@on_cuda
@pytest.mark.slow
def test_a_tensor_beyond_32_bits_of_indices_is_one_mask() -> None:
    numel = 2**32 + 4099
    if torch.cuda.mem_get_info()[0] < 3 * numel:
        pytest.skip("needs 12 GiB of free device memory")
    ones = gates.apply_(torch.ones(numel, dtype=torch.bfloat16, device="cuda"), lo=0.5, hi=1.0, key=KEY)
    for start in (0, 2**31 - 50, 2**32 - 50, numel - 100):
        assert torch.equal(
            ones[start : start + 100].bool().cpu(), gates.mask(100, lo=0.5, hi=1.0, key=KEY, offset=start)
        )
