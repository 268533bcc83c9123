"""Tiny random models of several towers: two layers in each, one image or sound in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import PreTrainedModel

from support.tiny_models import tiny

_TEXT: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_LLAMA = {**_TEXT, "model_type": "llama", "num_key_value_heads": 1}
_VISION: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}
_CLIP_VISION = {**_VISION, "model_type": "clip_vision_model"}
_ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}
_OPT = {**_TEXT, "model_type": "opt", "ffn_dim": 32, "word_embed_proj_dim": 16}
_SOUND: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "num_mel_bins": 8,
    "max_source_positions": 16,
}

TOWERS: dict[str, Callable[[], PreTrainedModel]] = {
    "qwen2-vl": tiny(
        "Qwen2VLConfig",
        "Qwen2VLForConditionalGeneration",
        text_config={**_TEXT, "num_key_value_heads": 1, "rope_parameters": _ROPE},
        vision_config={"depth": 2, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "patch_size": 4, "mlp_ratio": 2},
        image_token_id=90,
        video_token_id=91,
        vision_start_token_id=92,
        vision_end_token_id=93,
    ),
    "llava": tiny(
        "LlavaConfig",
        "LlavaForConditionalGeneration",
        text_config=_LLAMA,
        vision_config=_CLIP_VISION,
        image_token_index=90,
    ),
    "blip-2": tiny(
        "Blip2Config",
        "Blip2ForConditionalGeneration",
        text_config=_OPT,
        vision_config=_VISION,
        qformer_config={**_TEXT, "encoder_hidden_size": 16},
        image_token_index=90,
        num_query_tokens=3,
    ),
    "whisper": tiny(
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        vocab_size=96,
        decoder_layers=2,
        decoder_attention_heads=2,
        decoder_ffn_dim=32,
        max_target_positions=40,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        decoder_start_token_id=1,
        **_SOUND,
    ),
    "clip": tiny("CLIPConfig", "CLIPModel", text_config=_TEXT, vision_config=_VISION, projection_dim=8),
}
