"""Base and delta are the trained model, bit for bit, and a delta holds only what differs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

import gradgate as gg
from gradgate import MethodInfo, deltas
from gradgate.deltas.changes import stored_best
from gradgate.deltas.safetensors_file import TensorEntry
from gradgate.errors import DeltaError
from support.bits import assert_same_bits, on_disk
from support.catalog_table import KINDS_OF_CELLS, build, changed, method_of, trained
from support.tiny_folders import save_mixtral


def write_model(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any] | None = None) -> Path:
    """A folder that looks like a saved model."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "bert"}))
    return folder


def there_and_back(tmp_path: Path, base: dict[str, Tensor], after: dict[str, Tensor]) -> deltas.Delta:
    """Make a delta and apply it, and check that the result is the trained model."""
    made = deltas.create(
        write_model(tmp_path / "after", after), write_model(tmp_path / "base", base), tmp_path / "d.safetensors"
    )
    assert_same_bits(on_disk(deltas.apply(made.path, tmp_path / "base", tmp_path / "again")), after)
    return made


# A delta reads the weights alone: what was closed, in part and whole, in each model. The others are slow.
FAST = ("full-encoder", "layer-graddrop-decoder", "mixout-encoder", "mofo-decoder", "sparse-encoder-decoder")


@pytest.mark.parametrize(
    ("row", "name"),
    [
        pytest.param(*cell.values, id=cell.id, marks=() if cell.id in FAST else pytest.mark.slow)
        for cell in KINDS_OF_CELLS.args[1]
    ],
)
def test_base_and_delta_are_the_trained_model_for_every_method(
    tmp_path: Path, row: MethodInfo | str, name: str
) -> None:
    done = trained(method_of(row), name)
    model = build(name)
    model.save_pretrained(tmp_path / "base")
    model.load_state_dict(done.weights[-1], strict=False)
    model.save_pretrained(tmp_path / "trained")

    made = deltas.create(tmp_path / "trained", tmp_path / "base", tmp_path / "delta.safetensors")

    assert_same_bits(on_disk(deltas.apply(made.path, None, tmp_path / "again")), on_disk(tmp_path / "trained"))
    assert set(made.names) <= changed(done.weights[0], done.weights[-1])
    again = type(model).from_pretrained(tmp_path / "again")
    assert_same_bits(dict(again.state_dict()), dict(model.state_dict()))


def test_every_bit_counts(tmp_path: Path) -> None:
    base = {"w": torch.zeros(64), "v": torch.zeros(3)}
    after = {"w": base["w"].clone(), "v": base["v"].clone()}
    after["w"][3] = -0.0
    after["w"][60] = float("nan")
    other_nan = after["w"].clone().view(torch.int32)
    other_nan[60] += 1

    made = there_and_back(tmp_path, base, after)
    assert {name: entry.elements for name, entry in made.sparse.items()} == {"w": 2}
    assert not made.whole
    stored = load_file(made.path)
    assert stored["w.idx"].tolist() == [3, 60]
    assert stored["w.idx"].dtype == torch.int32

    made = there_and_back(tmp_path / "nan", after, {**after, "w": other_nan.view(torch.float32)})
    assert {name: entry.elements for name, entry in made.sparse.items()} == {"w": 1}


@given(
    item=st.sampled_from(["F64", "F32", "BF16", "F16", "I8", "I64", "F8_E4M3"]),
    elements=st.integers(1, 2**33),
    share=st.floats(0, 1),
)
def test_a_tensor_is_stored_in_the_smaller_form(item: str, elements: int, share: float) -> None:
    count = round(share * elements)
    entry = TensorEntry(item, (elements,))
    whole, sparse = entry.bytes, count * (entry.item_bytes + (8 if elements >= 2**31 else 4))
    expected = "not" if count == 0 else "sparse" if sparse < whole else "whole"
    assert stored_best(entry, entry, count).stored == expected


DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("places", [(), (0,), (7, 8, 99), tuple(range(100))], ids=len)
def test_every_type_comes_back(tmp_path: Path, dtype: torch.dtype, places: tuple[int, ...]) -> None:
    base = (torch.arange(100) % 2).view(4, 25).to(dtype)
    after = base.clone()
    after.view(-1)[list(places)] = (~base.bool()).to(dtype).view(-1)[list(places)]
    made = there_and_back(tmp_path, {"w": base, "s": torch.tensor(1.5)}, {"w": after, "s": torch.tensor(1.5)})
    assert set(made.names) == ({"w"} if places else set())


def test_rows_that_were_added_or_taken_away(tmp_path: Path) -> None:
    table = torch.randn(50, 4)
    grown = torch.cat([table, torch.randn(3, 4)])
    grown[7, 1] = 9.0
    made = there_and_back(
        tmp_path, {"table": table, "bias": torch.zeros(50)}, {"table": grown, "bias": torch.zeros(53)}
    )
    assert made.origin.shapes == {"table": (53, 4), "bias": (53,)}
    assert made.sparse["table"].elements == 1 + 3 * 4

    made = there_and_back(tmp_path / "less", {"table": table}, {"table": table[:40].clone()})
    assert made.origin.shapes == {"table": (40, 4)}
    assert made.sparse["table"].elements == 0

    made = there_and_back(
        tmp_path / "wider", {"table": table, "s": table.clone()}, {"table": torch.randn(50, 5), "s": table.clone()}
    )
    assert list(made.whole) == ["table"]


def test_a_head_is_stored_whole_and_that_of_the_pre_training_left_out(tmp_path: Path) -> None:
    base = {"encoder.a": torch.randn(8), "encoder.b": torch.randn(8), "cls.w": torch.randn(3)}
    after = {f"bert.{name}": tensor for name, tensor in base.items() if name != "cls.w"} | {"head.w": torch.randn(2, 8)}
    made = there_and_back(tmp_path, base, after)
    assert list(made.whole) == ["head.w"]
    assert not made.sparse
    assert made.origin.left_out == ("cls.w",)

    taken_out = {name.removeprefix("bert."): tensor for name, tensor in after.items() if name != "head.w"}
    made = there_and_back(tmp_path / "inside", after, taken_out)
    assert not made.names
    assert made.origin.left_out == ("head.w",)


def test_a_base_with_the_older_names_of_norms(tmp_path: Path) -> None:
    base = {"bert.a.LayerNorm.gamma": torch.randn(8), "bert.a.LayerNorm.beta": torch.randn(8), "bert.w": torch.randn(4)}
    renamed = {"gamma": "weight", "beta": "bias", "w": "w"}
    after = {f"{name.rpartition('.')[0]}.{renamed[name.rpartition('.')[2]]}": value for name, value in base.items()}
    assert not there_and_back(tmp_path, base, after).names
    assert there_and_back(tmp_path / "same", base, base | {"bert.w": torch.randn(4)}).names


def test_a_base_in_half_precision_that_was_trained_in_float32(tmp_path: Path) -> None:
    base = {"a": torch.randn(64).bfloat16(), "b": torch.randn(64), "ids": torch.arange(9)}
    after = {"a": base["a"].float(), "b": base["b"].clone(), "ids": base["ids"]}
    after["a"][5] += 1
    made = there_and_back(tmp_path, base, after)
    assert made.origin.dtype == "F32"
    assert {name: entry.elements for name, entry in made.sparse.items()} == {"a": 1}
    assert not made.whole


def test_shards_in_and_out(tmp_path: Path) -> None:
    base, after = ({f"l{n}.w": torch.randn(100) for n in range(6)} for _ in range(2))
    after = {name: base[name] if name in ("l1.w", "l4.w") else tensor for name, tensor in after.items()}
    for folder, tensors in ((tmp_path / "base", base), (tmp_path / "after", after)):
        for part in range(3):
            held = {name: t for name, t in tensors.items() if int(name[1]) % 3 == part}
            write_model(folder / str(part), held)
            (folder / str(part) / "model.safetensors").rename(folder / f"model-{part}.safetensors")
        places = {name: f"model-{int(name[1]) % 3}.safetensors" for name in tensors}
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    whole = write_model(tmp_path / "whole", base)

    made = deltas.create(tmp_path / "after", tmp_path / "base", tmp_path / "d.safetensors")
    assert set(made.whole) == {"l0.w", "l2.w", "l3.w", "l5.w"}

    again = deltas.apply(made.path, whole, tmp_path / "again", shard_bytes=900)  # shards are no part of the fingerprint
    assert len(list(again.glob("model-*-of-00003.safetensors"))) == 3
    assert_same_bits(on_disk(again), after)
    assert json.loads((again / "model.safetensors.index.json").read_text())["metadata"]["total_size"] == 2400


def test_a_pickled_base_is_read_as_tensors_alone(tmp_path: Path) -> None:
    base = {"a": torch.randn(8), "b": torch.randn(8)}
    folder = write_model(tmp_path / "base", base)
    (folder / "model.safetensors").unlink()
    torch.save(base, folder / "pytorch_model.bin")
    after = write_model(tmp_path / "after", {**base, "b": torch.randn(8)})
    made = deltas.create(after, folder, tmp_path / "d.safetensors")
    assert list(made.whole) == ["b"]
    assert_same_bits(on_disk(deltas.apply(made, folder, tmp_path / "again")), on_disk(after))


def test_a_model_in_memory_has_the_names_that_it_has_on_disk(tmp_path: Path) -> None:
    from transformers import AutoModel

    base = save_mixtral(tmp_path / "base")
    model = AutoModel.from_pretrained(base)
    with torch.no_grad():
        model.norm.weight.add_(1)
    made = deltas.create(model, base, tmp_path / "d.safetensors", method="full", task="none")
    assert made.names == ("norm.weight",)
    assert (made.origin.method, made.origin.task) == ("full", "none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "d.safetensors"]

    gg.adapters.add(tiny := AutoModel.from_pretrained(gg.sample.MODEL), "task", "pfeiffer")
    with pytest.raises(DeltaError, match="has an adapter"):
        deltas.create(tiny, "sample", tmp_path / "d2.safetensors")


def test_a_delta_to_a_model_that_is_itself_a_delta(tmp_path: Path) -> None:
    first = {"a": torch.randn(8), "b": torch.randn(8)}
    second, third = {**first, "a": torch.randn(8)}, {**first, "b": torch.randn(8)}
    base = write_model(tmp_path / "base", first)
    middle = write_model(tmp_path / "middle", second)
    deltas.create(middle, base, middle / "delta.safetensors")
    (middle / "model.safetensors").unlink()

    last = write_model(tmp_path / "last", third)
    made = deltas.create(last, middle, tmp_path / "d.safetensors")
    assert set(made.names) == {"a", "b"}
    assert_same_bits(on_disk(deltas.apply(made, None, tmp_path / "again")), third)


def test_the_tokenizer_travels_where_it_is_not_the_bases(tmp_path: Path, tiny_model: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(tiny_model), AutoTokenizer.from_pretrained(tiny_model)
    for folder, added in (("same", []), ("more", ["[NEW]"])):
        tokenizer.add_tokens(added)
        tokenizer("good", truncation=True, max_length=4)  # which its file keeps, and which changes no token
        model.resize_token_embeddings(len(tokenizer))
        model.save_pretrained(tmp_path / folder)
        tokenizer.save_pretrained(tmp_path / folder)
        made = deltas.create(tmp_path / folder, tiny_model, tmp_path / "deltas" / folder)
        assert ("tokenizer.json" in made.origin.files) == bool(added)
        again = deltas.apply(made, None, tmp_path / "again" / folder)
        assert len(AutoTokenizer.from_pretrained(again)) == len(tokenizer)
        assert AutoModel.from_pretrained(again).config.vocab_size == len(tokenizer)


def test_a_template_and_the_settings_of_a_tokenizer_travel(tmp_path: Path, tiny_model: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(tiny_model), AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = "{{ messages[0].content }}"
    tokenizer.sep_token, tokenizer.model_max_length = "[MASK]", 77
    model.save_pretrained(tmp_path / "trained")
    tokenizer.save_pretrained(tmp_path / "trained")
    made = deltas.create(tmp_path / "trained", tiny_model, tmp_path / "d.safetensors")
    assert "tokenizer.json" not in made.origin.files
    again = AutoTokenizer.from_pretrained(deltas.apply(made, None, tmp_path / "again"))
    assert (again.chat_template, again.sep_token, again.model_max_length) == (tokenizer.chat_template, "[MASK]", 77)


def test_files_of_the_bases_tokenizer_do_not_override_those_of_the_trained_one(
    tmp_path: Path, tiny_model: Path
) -> None:
    from transformers import AutoTokenizer

    base = tmp_path / "base"
    shutil.copytree(tiny_model, base)
    (base / "special_tokens_map.json").write_text(json.dumps({"sep_token": "[UNK]"}))
    (base / "chat_template.jinja").write_text("of the base")
    (base / "bpe.codes").write_text("of the base")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    for folder, added in (("settings", []), ("vocabulary", ["[NEW]"])):
        tokenizer.add_tokens(added)
        tokenizer.sep_token = "[MASK]"
        write_model(tmp_path / folder, load_file(base / "model.safetensors"))
        tokenizer.save_pretrained(tmp_path / folder)
        made = deltas.create(tmp_path / folder, base, tmp_path / "deltas" / f"{folder}.safetensors")
        # Alone, in the folder of a run, and next to the base.
        for delta in (made.path, *(shutil.copy(made.path, other) for other in (tmp_path / folder, base))):
            applied = deltas.apply(delta, None, tmp_path / "again" / folder / Path(delta).name)
            again = AutoTokenizer.from_pretrained(applied)
            assert (again.sep_token, again.chat_template, len(again)) == ("[MASK]", None, len(tokenizer))
            assert (applied / "bpe.codes").exists() == (
                folder == "settings" and Path(delta).parent != tmp_path / folder
            )
            shutil.rmtree(applied)


def test_a_tokenizer_of_any_name_is_kept_and_no_weights_code_or_card(tmp_path: Path) -> None:
    base, after = {"w": torch.zeros(8)}, {"w": torch.ones(8)}
    for name in ("spm.model", "bpe.codes", "target.spm", "tekken.json", "word_shape.json", "video_preprocessor.json"):
        (write_model(tmp_path / "base", base) / name).write_bytes(b"\x00\xff")
    kept = {path.name for path in (tmp_path / "base").iterdir()}
    for name in ("tf_model.h5", "pytorch_model.bin.index.json", "modeling.py", "README.md", ".gitattributes"):
        (tmp_path / "base" / name).write_text("left out")

    there_and_back(tmp_path, base, after)

    assert {path.name for path in (tmp_path / "again").iterdir()} == kept
    assert (tmp_path / "again" / "spm.model").read_bytes() == b"\x00\xff"
