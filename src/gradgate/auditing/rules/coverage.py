"""Find adapters that miss layers or modules, and new rows of tables that cannot learn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradgate.auditing.findings import Finding, finding, listed
from gradgate.auditing.records import AdapterRecord, ModelObservations, ParameterRecord

_PADDED_TO = 64  # tables are padded to a multiple of it, with rows that no token uses


def partial_coverage(model: ModelObservations) -> Iterator[Finding]:
    """Find adapters in some layers only, targets that no module has, and new token rows that are closed."""
    for adapter in model.adapters:
        yield from _missed_layers(model, adapter)
        yield from _missed_targets(adapter)
    closed = [each for each in model.parameters if each.new_rows and _rows_are_closed(model, each)]
    if closed:
        rows = ", ".join(f"{each.new_rows} to {each.shape[0] - 1}" for each in closed)
        yield finding(
            "partial_coverage",
            closed,
            f"{{names}}: rows {rows} are new since the model was pretrained, and none of them learns. Usual cause: "
            f"tokens were added, but the table is frozen under an adapter. Add trainable_token_indices or "
            f"modules_to_save to the adapter's configuration, or train the table.",
        )


def _missed_layers(model: ModelObservations, adapter: AdapterRecord) -> Iterator[Finding]:
    if adapter.chosen_layers or not model.mapped:
        return
    towers: dict[str, dict[str, bool]] = defaultdict(dict)
    adapted = tuple(f"{path}." for path in adapter.adapted)
    for each in model.parameters:
        if each.group.startswith("layers."):
            layers = towers[each.tower]
            layers[each.group] = layers.get(each.group, False) or f"{each.name}.".startswith(adapted)
    for tower, layers in towers.items():
        reached = [name for name, is_adapted in layers.items() if is_adapted]
        if 0 < len(reached) < len(layers):
            missed = [name for name in layers if name not in reached]
            where = f" of {tower}" if tower else ""
            yield Finding(
                "partial_coverage",
                tuple(each.name for each in model.parameters if each.group in reached and each.opened),
                f"{adapter.kind} is in {len(reached)} of {len(layers)} layers{where}; {listed(missed)} have none. "
                f"Usual cause: target_modules ({listed(adapter.targets)}) names modules that only some layers have, "
                f"as in models with several kinds of attention. Print the names with gradgate layers --unit module, "
                f"or use target_modules='all-linear'.",
            )


def _missed_targets(adapter: AdapterRecord) -> Iterator[Finding]:
    missed = [
        target
        for target in adapter.targets
        if not any(path == target or path.endswith(f".{target}") for path in adapter.adapted)
    ]
    if missed:
        yield Finding(
            "partial_coverage",
            (),
            f"{adapter.kind} adapts no module named {listed(missed)}, though target_modules asks for it. Usual "
            f"cause: the names of another architecture. Print the model's own with gradgate layers --unit module.",
        )


def _rows_are_closed(model: ModelObservations, table: ParameterRecord) -> bool:
    padded = table.shape[0] % _PADDED_TO == 0 and table.shape[0] - table.new_rows < _PADDED_TO
    home = table.name.rpartition(".")[0].removesuffix(".base_layer").removesuffix(".original_module")
    added = any(each.opened for each in model.parameters if each.name.startswith(f"{home}."))
    return not padded and not table.opened and not added
