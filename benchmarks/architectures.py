"""Map the layers of every model type in six of transformers' auto classes, each as a tiny random model.

"watched": a forward pass ran. "in part": it ran without some tower. "by position": no forward pass runs. In all three,
each parameter is in exactly one group. Each line below the table is a model that is not built, not mapped, or mapped
by position, with the reason. ``benchmarks/shrink.py`` makes the configurations.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from transformers.models.auto import modeling_auto

from benchmarks.shrink import tiny_config
from gradgate.layers import LayerMap, map_layers, named_parameters

# Heads and the table of their classes.
HEADS = {
    "AutoModelForSequenceClassification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "AutoModelForCausalLM": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "AutoModelForSeq2SeqLM": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "AutoModelForImageClassification": modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    "AutoModelForAudioClassification": modeling_auto.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES,
    "AutoModelForImageTextToText": modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
}
MAPPED = ("watched", "in part", "by position")
LARGEST = 700_000_000  # most parameters of a model that is built
REASON = 150  # most characters of a reason in the table


@dataclass(frozen=True)
class Case:
    """One model type with one head."""

    head: str
    model_type: str

    def build(self) -> Any:
        """Build the tiny random model, with real weights: experts and masks by value do not run on the meta device."""
        config: Any = tiny_config(self.model_type)
        if self.head == "AutoModelForCausalLM" and hasattr(config, "is_decoder"):
            config.is_decoder = True
        if getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = 0
        names = HEADS[self.head][self.model_type]
        config.architectures = [names] if isinstance(names, str) else [names[0]]
        with torch.device("meta"):
            size = sum(p.numel() for p in self._make(config).parameters())
        if size > LARGEST:
            raise ValueError(f"the configuration cannot be made small: {size:,} parameters")
        return self._make(config)

    def _make(self, config: Any) -> Any:
        """Build with the auto class, else with the class that its table names, of the decoder if that is a part."""
        try:
            return getattr(hf, self.head).from_config(config)
        except (ValueError, AttributeError):
            model_class = getattr(hf, config.architectures[0], None)
            if model_class is None:
                raise
            return model_class._from_config(getattr(config, "decoder", config))


@dataclass(frozen=True)
class Seen:
    """The result of a case: ``how`` is one of ``MAPPED``, ``not mapped`` or ``not built``."""

    case: Case
    how: str
    reason: str = ""
    layer_map: LayerMap | None = None


def cases() -> list[Case]:
    """Return every model type of every head."""
    return [Case(head, model_type) for head, types in HEADS.items() for model_type in types]


def look(case: Case) -> Seen:
    """Build a case and map it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = case.build()
    except Exception as error:  # any model code may run here, so anything may be raised
        return Seen(case, "not built", f"{type(error).__name__}: {error}")
    try:
        layer_map = map_layers(model)
    except Exception as error:
        return Seen(case, "not mapped", f"{type(error).__name__}: {error}")
    placed = [name for group in layer_map for name in group.parameter_names]
    if sorted(placed) != sorted(named_parameters(model)):
        return Seen(case, "not mapped", "some parameter is not in exactly one group")
    for start, how in (("No forward", "by position"), ("Did not run", "in part")):
        note = next((note for note in layer_map.notes if note.startswith(start)), None)
        if note:
            return Seen(case, how, note, layer_map)
    return Seen(case, "watched", "", layer_map)


def run() -> list[str]:
    hf.logging.set_verbosity_error()
    return list(table([look(case) for case in cases()]))


def table(seen: list[Seen]) -> Iterator[str]:
    """Yield the counts by head, and a line per case that is not fully mapped by watching it."""
    columns = (*MAPPED, "not mapped", "not built")
    yield f"{'':<36}{'types':>7}" + "".join(f"{column:>13}" for column in columns) + f"{'mapped':>9}"
    for head in (*HEADS, "all"):
        of_head = [each for each in seen if head in (each.case.head, "all")]
        counts = Counter(each.how for each in of_head)
        share = sum(counts[how] for how in MAPPED) / max(1, len(of_head))
        yield f"{head:<36}{len(of_head):>7}" + "".join(f"{counts[c]:>13}" for c in columns) + f"{share:>9.1%}"
    for how in ("not built", "not mapped", "by position", "in part"):
        yield ""
        for each in seen:
            if each.how == how:
                reason = " ".join(each.reason.split())
                head = each.case.head.removeprefix("AutoModelFor")
                yield f"{how}: {each.case.model_type} ({head}): {reason[:REASON]}"
