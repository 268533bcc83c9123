"""Shrink the configuration of any architecture in transformers by one rule: settings are recognised by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

WIDTH, HEADS, LAYERS, VOCABULARY, POSITIONS = 96, 4, 2, 256, 512
MOST_LAYERS = 4  # of a model with several kinds of layers

# The first pattern that matches the full name of a setting sets its limit.
_SIZES: tuple[tuple[str, int], ...] = (
    (r"num_feat_extract_layers|patch_embed_hidden_size|num_conv_.*|acoustic_tokenizer_chunk_size", 10**9),
    (r"(swa|sliding).*head_dim", 2 * WIDTH // HEADS),
    (r"index_kpool", 2),
    (r"adapter_input_size", WIDTH),
    (r"hidden_size_global", WIDTH),
    (r"mamba_d_ssm|attention_hidden_size", 2 * WIDTH),
    (r"attention_head_dim|mamba_(d_head|head_dim|headdim)", 2 * WIDTH // HEADS),
    (r"qk_head_dim", 2 * WIDTH // HEADS),
    (r".*(rope_head_dim)", WIDTH // HEADS),
    (r".*(rotary_dim)", WIDTH // HEADS // 2),
    (r".*(head_dim|dim_head|d_kv|kv_channels|head_size|d_head|_headdim|key_head_dim|value_head_dim)", WIDTH // HEADS),
    (r"coordinate_size|shape_size", WIDTH // 6),
    (r"intra_bottleneck_size|true_hidden_size", WIDTH),
    (
        r".*(vocab_size|vocabulary_size|vocab_size_per_layer_input|codebook_size|hash_buckets|hash_byte_group_vocab)",
        VOCABULARY,
    ),
    (r".*(vocab_size_base|ngram_vocab_size.*)", VOCABULARY),
    (r".*(experts_per_tok(en)?|top_?k(_experts)?|moe_k|index_topk.*)", 2),
    (r".*(topk_groups?|(^|_)n_groups?|expert_groups?|mamba_n_?groups)", 1),
    (r".*(shared_experts?)", 1),
    (r".*(num_experts|local_experts|routed_experts|zero_expert_num)", 4),
    (
        r"(first_k_dense_replace|num_dense_layers|num_nextn_predict_layers|mtp_num_hidden_layers|moe_layer_start_index)",
        1,
    ),
    (r"(num_kv_shared_layers)", 0),
    (r"(attn_layer_period|expert_layer_period|full_attention_interval|cross_layer_interval|layer_group_size)", 2),
    (r"(attn_layer_offset|expert_layer_offset)", 1),
    (r".*(key_value_heads|kv_heads|n_head_kv|query_group_num|num_query_groups|kv_n_heads)", 2),
    (r".*(_heads?|n_heads?|heads)", HEADS),
    (r"(.*_)?(hidden_layers|num_layers|n_layers?|encoder_layers|decoder_layers|layers|depth|num_blocks)", LAYERS),
    (r"(.*_)?num_(encoder|decoder)_layers", LAYERS),
    (r".*(num_layers_per_stack|num_sparse_(en|de)coder_layers|self_attends_per_block|moe_layer_end_index)", 1),
    (r".*(lora_rank|_rank|lowrank|ssm_state_size|d_state|_state_size)", 8),
    (
        r".*(intermediate_size.*|ffn_dim.*|d_ff|d_inner|dim_ff|dff|ffn_hidden_size|n_inner|mlp_dim|feed_?forward_(size|dim))",
        2 * WIDTH,
    ),
    (
        r"(.*_)?(hidden_size|d_model|n_embd|embed_dim|embedding_size|embedding_dim|emb_dim|width|lru_width|hidden_dim)",
        WIDTH,
    ),
    (r"(.*_)?(dim|d_latents|output_dim|input_dim|projection_size|output_size|out_dim|in_dim|emb_size)", WIDTH),
    (r".*_hidden_size|output_hidden_size|mamba_d_ssm", WIDTH),
    (r".*(max_position_embeddings|n_positions|max_seq_len|n_ctx|seq_len)", POSITIONS),
    (r"(image_size|img_size|max_image_size)", 64),
    (r"patch_size", 16),
    (r"(mm_tokens_per_image|image_seq_length|num_image_tokens|image_seq_len)", 16),
    (r"(query_tokens|num_query_tokens|latent_query_num|.*_latents)", 8),
    (r".*(chunk_size|block_size)", 16),
)
_STAGES = (
    "hidden_sizes",
    "embed_dims",
    "embed_dim",
    "num_heads",
    "num_attention_heads",
    "depths",
    "dim_embed",
    "neck_hidden_sizes",
    "layer_depths",
    "kernel_sizes",
    "block_configs",
    "stage_mid_channels",
)
# Settings that some default configurations lack, though their models need them.
_NEEDED = {
    "head_dim": WIDTH // HEADS,
    "num_key_value_heads": HEADS,
    "vocab_size": VOCABULARY,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": WIDTH,
    "num_experts_per_tok": 2,
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": WIDTH // HEADS,
    "indexer_budget": 8,
    "indexer_compress_ratio": 2,
}
_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
_NO_INPUT_FOR_LAYERS = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "granite4_vision": {"deepstack_layer_map": [[1, 1]]},
    "gemma4_assistant": {"text_config": {"model_type": "gemma4_text", **_NO_INPUT_FOR_LAYERS}},
}
_INCOMPLETE: dict[str, dict[str, Any]] = {
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}},
    "chameleon": {"vocabulary_map": {"<image>": 200, "IMGIMGA": 201}},
    "emu3": {"vocabulary_map": {"<image>": 200, "<|visual token 000000|>": 201}},
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 2}},
}
_LAYER_NUMBERS = re.compile(r".*(layers?|idxs?|index(es)?|indices|layer_ids)$")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers")
_OF_STAGES = re.compile(r"conv_.*|.*stage.*|out_features")
_TOKEN = re.compile(r"(.*_)?(token_id|token_index|token_ids|_id)s?$")


def tiny_config(model_type: str) -> PreTrainedConfig:
    """Shrink the default configuration of a type, with every kind of layer that it has.

    Args:
        model_type: as in ``CONFIG_MAPPING``.
    """
    config_class = CONFIG_MAPPING[model_type]
    settings = config_class(**_DEFAULTS.get(model_type, {})).to_dict()
    return config_class(**shrunk(settings) | _INCOMPLETE.get(model_type, {}))


def shrunk(settings: Mapping[str, Any], tokens: dict[int, int] | None = None) -> dict[str, Any]:
    """Return the settings with small numbers, nested ones too.

    Networks of stages, whose widths are lists, keep their widths: those belong together and are not large.
    """
    tokens = {} if tokens is None else tokens
    staged = any(isinstance(settings.get(name), list | tuple) and len(settings[name]) > 1 for name in _STAGES)
    kept = _kept_layers(settings)
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if name in ("stage_names", "out_features", "out_indices", "_out_features", "_out_indices"):
            continue
        if isinstance(value, Mapping) and name not in ("id2label", "label2id"):
            found[name] = _nested(name, value, kept, tokens)
        elif isinstance(value, bool) or not isinstance(name, str):
            found[name] = value
        elif value is None and name in _NEEDED:
            found[name] = _NEEDED[name]
        elif _TOKEN.match(name):
            found[name] = _small_token(name, value, tokens)
        elif isinstance(value, int):
            found[name] = value if staged else _small(name, value, len(kept), settings)
        elif isinstance(value, list | tuple) and not staged:
            found[name] = _small_list(name, list(value), kept, _layer_count(settings))
        else:
            found[name] = value
    for name in ("mrope_section", "rope_section"):
        if name in found:
            found[name] = _sections(found[name])
    return found


def _nested(name: str, value: Mapping[Any, Any], kept: list[int], tokens: dict[int, int]) -> dict[Any, Any]:
    if name.startswith("rope"):
        return _rope(value or {"full_attention": _ROPE, "sliding_attention": _ROPE})
    if name == "per_layer_config" and "sliding_attention" in value:  # whose heads have both kinds of positions
        return {kind: shrunk(each, tokens) | {"head_dim": 2 * WIDTH // HEADS} for kind, each in value.items()}
    if "layer" in name and value and all(str(key).isdigit() for key in value):  # settings of single layers
        return {kept.index(int(key)): shrunk(each, tokens) for key, each in value.items() if int(key) in kept}
    return shrunk(value, tokens)


def _small(name: str, value: int, layers: int, settings: Mapping[str, Any]) -> int:
    if "key_value" in name and value == settings.get("num_attention_heads"):
        return min(value, HEADS)
    both_kinds = name == "head_dim" and settings.get("qk_nope_head_dim", value) < value  # with and without positions
    if both_kinds or (name == "head_dim" and "expand" in settings):
        return 2 * WIDTH // HEADS
    if name in ("mamba_d_head", "mamba_head_dim", "mamba_headdim", "mamba_d_ssm"):
        return 2 * WIDTH if name == "mamba_d_ssm" else 2 * WIDTH // HEADS
    for pattern, size in _SIZES:
        if re.fullmatch(pattern, name):
            return min(value, layers if name in _LAYERS else size)
    return value


def _layer_count(settings: Mapping[str, Any]) -> int:
    return next((settings[name] for name in _LAYERS if isinstance(settings.get(name), int)), 0)


def _kept_layers(settings: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the layers that stay: the first two, or the first two of each kind."""
    count = _layer_count(settings)
    per_layer = [
        value
        for name, value in settings.items()
        if isinstance(value, list | tuple) and len(value) == count > 1 and not _OF_STAGES.match(name)
    ]
    kinds = [str(kind) for kind in zip(*per_layer, strict=True)]
    alike = [[number for number, kind in enumerate(kinds) if kind == each] for each in dict.fromkeys(kinds)]
    chosen = [numbers[0] for numbers in alike] + [numbers[1] for numbers in alike if len(numbers) > 1]
    return sorted(chosen[:MOST_LAYERS]) if len(chosen) > 1 else list(range(LAYERS))


def _small_list(name: str, values: list[Any], kept: list[int], layers: int) -> list[Any]:
    if _OF_STAGES.match(name):
        return values
    if len(values) == layers > 1:
        return [values[number] for number in kept if number < len(values)]
    if name == "axial_pos_embds_dim":
        return [WIDTH // 4, WIDTH - WIDTH // 4]
    if name == "attention_types":  # kinds and how often they are repeated
        return [[kinds, max(1, len(kept) // len(kinds))] for kinds, _ in values]
    if name == "image_grid_pinpoints":
        return [[64, 128], [128, 64]]
    numbers = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if numbers and values and _LAYER_NUMBERS.match(name) and max(values) >= len(kept):
        inside = [kept.index(value) for value in values if value in kept]
        return inside or sorted({min(value, len(kept) - 1) for value in values})
    return values


def _small_token(name: str, value: Any, tokens: dict[int, int]) -> Any:
    """Replace each token that is beyond the vocabulary."""
    if isinstance(value, list):
        return [_small_token(name, each, tokens) for each in value]
    if value is None and re.fullmatch("(image|audio|video)_token_(id|index)", name):
        return VOCABULARY // 2
    if not isinstance(value, int) or value < VOCABULARY // 2:
        return value
    return tokens.setdefault(value, VOCABULARY - 1 - len(tokens))


def _rope(settings: Mapping[str, Any]) -> dict[str, Any]:
    if "rope_type" in settings and "mrope_section" not in settings:  # models of images have one by default
        settings = {**settings, "mrope_section": [1, 1, 1]}
    return {
        name: _rope(value)
        if isinstance(value, Mapping)
        else _sections(value, settings.get("partial_rotary_factor") or 1.0)
        if name == "mrope_section"
        else value
        for name, value in settings.items()
    }


def _sections(values: Any, share: float = 1.0) -> Any:
    if not isinstance(values, list):
        return values
    half = int(WIDTH // HEADS * share) // 2
    return [half - half // len(values) * (len(values) - 1), *[half // len(values)] * (len(values) - 1)]
