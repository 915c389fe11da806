"""Run architectures of PyTorch, transformers and timm with `torch.compile(model, backend="npu_tensor")`, beside eager.

    python scripts/pytorch_models.py                             # all models: errors and graph breaks
    python scripts/pytorch_models.py --gradients bert            # the models whose names contain "bert"
    python scripts/pytorch_models.py --times 2 --json models.json timm.resnet50 hf.llama   # speed, with two threads

It needs torch; models whose names begin with "hf." need transformers, those with "timm." timm. Weights are random and
configurations small, so nothing is downloaded. Each model runs in a process of its own, with one thread.

The error is the largest difference from eager relative to the largest element of a result. Where it exceeds 1e-5, the
errors of both relative to float64 show which one is nearer. Times are the shortest of repeated calls, in milliseconds;
eager, inductor and npu_tensor are measured one after the other, each in a process of its own.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import torch
from torch.utils import _pytree

import npu_tensor as nt
from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.torch.backend import npu_tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

from pytorch_architectures import ARCHITECTURES
from torch_models import EXAMPLES

Model = tuple[torch.nn.Module, Sequence[Any], Mapping[str, Any]]
"""A module with positional and keyword arguments of a call."""

CONTENDERS: Final = {"eager": None, "inductor": "inductor", "ours": npu_tensor}
"""Backends by column; None runs the model as it is."""
REPETITIONS: Final = 9
"""Minimum number of timed calls."""
MEASURED_SECONDS: Final = 1.0
"""Minimum time of all timed calls."""
SMALLEST: Final = 1e-3
"""Largest element below which a weight hardly affects results."""
LIMIT: Final = 1e-5
"""Error above which both results are compared with float64."""

# --- models of transformers: inputs, and the model types with their differences from SMALL

SMALL: Final = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": False,
}
MOE: Final = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
PAIR: Final = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}
VISION: Final = {"image_size": 64, "patch_size": 16, "hidden_act": "gelu"}
TOWERS: Final = {
    "text_config": SMALL | {"projection_dim": 32},
    "vision_config": SMALL | VISION | {"projection_dim": 32},
    "projection_dim": 32,
}
WAVE: Final = {
    "conv_dim": [32, 32, 32],
    "conv_kernel": [10, 3, 2],
    "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}

TRANSFORMERS: Final[dict[str, dict[str, Mapping[str, Any]]]] = {
    "text": {
        "albert": {"embedding_size": 32},
        "bert": {},
        "bert_padded": {"model_type": "bert"},
        "biogpt": {},
        "bloom": {},
        "camembert": {},
        "canine": {},
        "codegen": {"rotary_dim": 8, "n_ctx": 128},
        "cohere": {},
        "cohere2": {},
        "convbert": {},
        "ctrl": {"dff": 128},
        "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 16},
        "diffllama": {},
        "distilbert": {"hidden_dim": 128},
        "electra": {"embedding_size": 32},
        "ernie": {},
        "esm": {"position_embedding_type": "rotary", "mask_token_id": 4},
        "exaone4": {},
        "falcon": {},
        "flaubert": {"emb_dim": 64, "n_layers": 2, "n_heads": 4},
        "fnet": {},
        "gemma": {"head_dim": 16},
        "gemma2": {"head_dim": 16},
        "gemma3_text": {"head_dim": 16},
        "glm": {"head_dim": 16},
        "glm4": {"head_dim": 16},
        "gpt2": {},
        "gpt_bigcode": {},
        "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 16},
        "gpt_neox": {},
        "gpt_oss": MOE | {"head_dim": 16, "layer_types": ["sliding_attention", "full_attention"]},
        "gptj": {"rotary_dim": 8},
        "granite": {},
        "granitemoe": MOE,
        "helium": {"head_dim": 16},
        "ibert": {},
        "layoutlm": {},
        "llama": {},
        "llama_eager": {"model_type": "llama", "attn_implementation": "eager"},
        "longformer": {"attention_window": 16},
        "mamba": {"state_size": 8, "time_step_rank": 8},
        "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2, "chunk_size": 16},
        "megatron-bert": {},
        "mistral": {},
        "mixtral": MOE,
        "mobilebert": {"intra_bottleneck_size": 32, "embedding_size": 32, "true_hidden_size": 32},
        "modernbert": {"cls_token_id": 1, "sep_token_id": 2},
        "mpnet": {},
        "mpt": {},
        "mra": {},
        "nemotron": {},
        "olmo": {},
        "olmo2": {},
        "olmoe": MOE,
        "openai-gpt": {},
        "opt": {"ffn_dim": 128, "word_embed_proj_dim": 64},
        "persimmon": {},
        "phi": {},
        "phi3": {},
        "qwen2": {},
        "qwen2_moe": MOE | {"shared_expert_intermediate_size": 64},
        "qwen3": {"head_dim": 16},
        "qwen3_moe": MOE | {"head_dim": 16},
        "qwen3_next": MOE
        | {
            "head_dim": 16,
            "shared_expert_intermediate_size": 64,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
        },
        "recurrent_gemma": {"head_dim": 16, "lru_width": 64, "attention_window_size": 32},
        "rembert": {"input_embedding_size": 32, "output_embedding_size": 32},
        "roberta": {},
        "roberta-prelayernorm": {},
        "roformer": {"embedding_size": 64},
        "rwkv": {"attention_hidden_size": 64, "context_length": 64},
        "smollm3": {},
        "splinter": {},
        "squeezebert": {"embedding_size": 64},
        "stablelm": {},
        "starcoder2": {},
        "xglm": {"d_model": 64, "ffn_dim": 128, "attention_heads": 4, "num_layers": 2},
        "xlm": {"emb_dim": 64, "n_layers": 2, "n_heads": 4},
        "xlm-roberta": {},
        "xlnet": {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128},
        "xmod": {"languages": ["en"], "default_language": "en"},
        "yoso": {},
    },
    "pair": {
        "bart": PAIR,
        "blenderbot": PAIR,
        "fsmt": PAIR | {"langs": ["en", "de"], "src_vocab_size": 512, "tgt_vocab_size": 512},
        "led": PAIR | {"attention_window": 16},
        "m2m_100": PAIR,
        "marian": PAIR | {"decoder_start_token_id": 1},
        "mbart": PAIR,
        "mt5": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
        "pegasus": PAIR,
        "plbart": PAIR,
        "prophetnet": {
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
        },
        "switch_transformers": {
            "d_model": 64,
            "d_kv": 16,
            "d_ff": 128,
            "num_layers": 2,
            "num_heads": 4,
            "num_experts": 4,
            "decoder_start_token_id": 0,
        },
        "t5": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
        "umt5": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    },
    "image": {
        "beit": VISION | {"use_relative_position_bias": True},
        "convnext": {"num_stages": 2, "hidden_sizes": [16, 32], "depths": [1, 1]},
        "convnextv2": {"num_stages": 2, "hidden_sizes": [16, 32], "depths": [1, 1]},
        "data2vec-vision": VISION | {"use_relative_position_bias": True},
        "deit": VISION,
        "detr": PAIR
        | {
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "num_queries": 10,
            "backbone": None,
            "backbone_config": {
                "model_type": "resnet",
                "embedding_size": 16,
                "hidden_sizes": [16, 32, 48, 64],
                "depths": [1, 1, 1, 1],
                "out_features": ["stage4"],
            },
        },
        "dinov2": VISION,
        "dinov2_with_registers": VISION,
        "dinov3_vit": VISION,
        "donut-swin": {
            "image_size": 64,
            "embed_dim": 16,
            "depths": [1, 1, 2, 1],
            "num_heads": [1, 2, 2, 4],
            "window_size": 2,
        },
        "dpt": VISION
        | {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [16, 16, 16, 16]},
        "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320, "image_size": 64},
        "focalnet": {"image_size": 64, "embed_dim": 16, "depths": [1, 1, 2, 1]},
        "glpn": {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [16, 32, 48, 64],
            "num_attention_heads": [1, 2, 3, 4],
            "decoder_hidden_size": 16,
        },
        "hiera": {"embed_dim": 16, "image_size": [64, 64], "depths": [1, 1, 2, 1], "num_heads": [1, 2, 4, 8]},
        "ijepa": VISION,
        "levit": {
            "image_size": 64,
            "hidden_sizes": [32, 48, 64],
            "num_attention_heads": [2, 3, 4],
            "depths": [1, 1, 1],
            "key_dim": [16, 16, 16],
        },
        "maskformer-swin": {
            "image_size": 64,
            "embed_dim": 16,
            "depths": [1, 1, 2, 1],
            "num_heads": [1, 2, 2, 4],
            "window_size": 2,
        },
        "mobilenet_v1": {"depth_multiplier": 0.25},
        "mobilenet_v2": {"depth_multiplier": 0.25},
        "mobilevit": {"image_size": 64, "hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 24, 32, 48, 64, 96]},
        "mobilevitv2": {"image_size": 64, "width_multiplier": 0.25},
        "poolformer": {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]},
        "pvt": {
            "image_size": 64,
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [16, 32, 48, 64],
            "num_attention_heads": [1, 2, 3, 4],
        },
        "pvt_v2": {
            "image_size": 64,
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [16, 32, 48, 64],
            "num_attention_heads": [1, 2, 3, 4],
        },
        "resnet": {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 1]},
        "sam_vision_model": {
            "image_size": 64,
            "patch_size": 8,
            "window_size": 4,
            "global_attn_indexes": [1],
            "mlp_dim": 128,
            "output_channels": 32,
        },
        "segformer": {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64], "num_attention_heads": [1, 2, 3, 4]},
        "siglip_vision_model": VISION,
        "swiftformer": {"image_size": 64, "depths": [1, 1, 1, 1], "embed_dims": [16, 32, 48, 64]},
        "swin": {
            "image_size": 64,
            "embed_dim": 16,
            "depths": [1, 1, 2, 1],
            "num_heads": [1, 2, 2, 4],
            "window_size": 2,
        },
        "swin2sr": {
            "image_size": 64,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
            "upscale": 2,
        },
        "swinv2": {
            "image_size": 64,
            "embed_dim": 16,
            "depths": [1, 1, 2, 1],
            "num_heads": [1, 2, 2, 4],
            "window_size": 2,
        },
        "vit": VISION,
        "vit_msn": VISION,
        "vitdet": VISION | {"pretrain_image_size": 64, "window_size": 2},
        "yolos": VISION | {"image_size": [64, 64], "num_detection_tokens": 5},
    },
    "video": {
        "timesformer": VISION | {"num_frames": 2},
        "videomae": VISION | {"num_frames": 2, "tubelet_size": 1},
        "vivit": VISION | {"num_frames": 2, "tubelet_size": [1, 16, 16]},
    },
    "text and image": {
        "altclip": TOWERS | {"text_config": SMALL | {"project_dim": 32, "projection_dim": 32}},
        "chinese_clip": TOWERS,
        "clip": TOWERS,
        "siglip": TOWERS,
        "vilt": VISION,
    },
    "wave": {
        "data2vec-audio": WAVE,
        "hubert": WAVE,
        "sew": WAVE | {"squeeze_factor": 2},
        "unispeech": WAVE,
        "unispeech-sat": WAVE,
        "wav2vec2": WAVE,
        "wav2vec2-conformer": WAVE,
        "wavlm": WAVE | {"num_buckets": 32, "max_bucket_distance": 64},
    },
    "spectrum": {
        "audio-spectrogram-transformer": VISION | {"max_length": 64, "num_mel_bins": 32},
        "parakeet_encoder": {"num_mel_bins": 32, "subsampling_conv_channels": 16},
        "speech_to_text": PAIR | {"input_feat_per_channel": 32, "decoder_start_token_id": 1},
        "wav2vec2-bert": {"feature_projection_input_dim": 32},
        "whisper": PAIR
        | {"num_mel_bins": 32, "max_source_positions": 32, "max_target_positions": 64, "decoder_start_token_id": 1},
    },
    "series": {
        "patchtst": {
            "num_input_channels": 3,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 32,
            "ffn_dim": 64,
        },
        "patchtsmixer": {
            "num_input_channels": 3,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 32,
        },
    },
}

TIMM: Final = """
    beit_base_patch16_224 cait_xxs24_224 coat_tiny coatnet_nano_rw_224 convit_tiny convmixer_768_32
    convnext_atto convnextv2_atto crossvit_tiny_240 cspresnet50 darknet53 davit_tiny deit_tiny_patch16_224
    densenet121 dla34 dm_nfnet_f0 dpn48b eca_resnet33ts edgenext_small efficientformer_l1 efficientformerv2_s0
    efficientnet_b0 efficientvit_b0 efficientvit_m0 eva02_tiny_patch14_224 fastvit_t8 fbnetc_100
    focalnet_tiny_srf gcvit_xxtiny gernet_s ghostnet_100 gmixer_24_224 gmlp_s16_224 hardcorenas_a hgnet_tiny
    hiera_tiny_224 hrnet_w18_small inception_next_tiny inception_v3 lcnet_050 legacy_seresnet18 levit_128s
    mambaout_femto maxvit_rmlp_pico_rw_256 mixer_s32_224 mixnet_s mnasnet_050 mobilenetv2_050
    mobilenetv3_large_100 mobilenetv4_conv_small mobilevit_xs mobilevitv2_050 mobileone_s0 mvitv2_tiny nest_tiny
    nf_regnet_b0 pit_ti_224 poolformer_s12 pvt_v2_b0 rdnet_tiny regnety_004 repghostnet_050 repvgg_a0
    repvit_m0_9 res2net50_14w_8s resmlp_12_224 resnest14d resnet18 resnet50 resnetv2_50 resnext26ts rexnet_100
    selecsls42 semnasnet_075 sequencer2d_s seresnet18 shvit_s1 skresnet18 starnet_s1
    swin_tiny_patch4_window7_224 swinv2_cr_tiny_224 tiny_vit_5m_224 tf_efficientnet_lite0 tinynet_e
    tnt_s_patch16_224 tresnet_m twins_svt_small vgg11 visformer_tiny vit_relpos_small_patch16_224
    vit_tiny_patch16_224 volo_d1_224 vovnet39a xception41 xcit_nano_12_p16_224
"""
"""Names of models of timm."""


def is_settable(config: Any, key: str) -> bool:
    """Return True if a configuration has a number of this name, not a list with one for each stage or a property."""
    return isinstance(getattr(config, key, None), int | None) and not isinstance(
        getattr(type(config), key, None), property
    )


def of_transformers(kind: str, name: str, differences: Mapping[str, Any]) -> Model:
    """Make a model of transformers and arguments of a kind."""
    from transformers import AutoConfig, AutoModel

    chosen = {"model_type": name} | dict(differences)
    usual = AutoConfig.for_model(chosen["model_type"])
    chosen = {key: value for key, value in SMALL.items() if is_settable(usual, key)} | chosen
    attention = chosen.pop("attn_implementation", None)
    config = AutoConfig.for_model(**chosen)
    if attention:
        config._attn_implementation = attention
    tokens = torch.randint(5, 500, (1, 32))
    image = torch.randn(1, 3, 64, 64)
    inputs: dict[str, dict[str, torch.Tensor]] = {
        "text": {"input_ids": tokens},
        "pair": {"input_ids": tokens, "decoder_input_ids": tokens[:, :16]},
        "image": {"pixel_values": image},
        "video": {"pixel_values": torch.randn(1, 2, 3, 64, 64)},
        "text and image": {"input_ids": tokens, "pixel_values": image},
        "wave": {"input_values": torch.randn(1, 2000)},
        "spectrum": {"input_features": torch.randn(1, 64, 32)},
        "series": {"past_values": torch.randn(2, 32, 3)},
    }
    arguments = dict(inputs[kind])
    if name == "bert_padded":
        arguments["attention_mask"] = torch.ones(1, 32, dtype=torch.long).tril_(16)
    elif name == "audio-spectrogram-transformer":
        arguments = {"input_values": torch.randn(1, 64, 32)}
    elif name == "whisper":
        arguments = {"input_features": torch.randn(1, 32, 64), "decoder_input_ids": tokens[:, :16]}
    elif name == "speech_to_text":
        arguments["decoder_input_ids"] = tokens[:, :16]
    return AutoModel.from_config(config), (), arguments


def of_timm(name: str) -> Model:
    """Make a model of timm."""
    import timm

    model = timm.create_model(name, num_classes=10)
    return model, (torch.randn(1, *model.default_cfg["input_size"]),), {}


def of_torch(name: str) -> Model:
    """Make a model that needs only PyTorch."""
    model, arguments = (EXAMPLES | ARCHITECTURES)[name]()
    return model, arguments, {}


MODELS: Final[dict[str, Callable[[], Model]]] = {
    **{f"nn.{name}": (lambda name=name: of_torch(name)) for name in (*EXAMPLES, *ARCHITECTURES)},
    **{
        f"hf.{name}": (lambda kind=kind, name=name, values=values: of_transformers(kind, name, values))
        for kind, models in TRANSFORMERS.items()
        for name, values in models.items()
    },
    **{f"timm.{name}": (lambda name=name: of_timm(name)) for name in TIMM.split()},
}


# --- a model beside eager


def disturb(model: torch.nn.Module) -> None:
    """Add noise to constant and tiny weights, so that heads of zeros and layer scales of 1e-6 have an effect."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            is_many = tensor.is_floating_point() and tensor.numel() > 1
            if is_many and (tensor.min() == tensor.max() or tensor.abs().max() < SMALLEST):
                tensor.add_(torch.rand_like(tensor) * 0.1)


def leaves(result: Any) -> list[torch.Tensor]:
    """Return the floating-point tensors of a result."""
    return [
        each
        for each in _pytree.tree_leaves(result)
        if isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex())
    ]


def largest_error(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """Return the largest difference relative to the largest finite element."""
    if len(results) != len(expected):
        return math.inf
    errors = [0.0]
    for own, other in zip(results, expected, strict=True):
        if own.shape != other.shape:
            return math.inf
        own, other = own.detach().double(), other.detach().double()
        finite = other.isfinite()
        if not torch.equal(own.isfinite(), finite):
            return math.inf
        if finite.any():
            scale = other[finite].abs().max().clamp_min(1e-30)
            errors.append(float((own - other)[finite].abs().max() / scale))
    return max(errors)


def seeded(function: Callable[[], Any]) -> Any:
    """Call a function after seeding all random generators."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    return function()


def gradients(model: torch.nn.Module, call: Callable[[], Any]) -> list[torch.Tensor]:
    """Return the gradients of the mean square of all results, in the order of the parameters that have one."""
    model.zero_grad(set_to_none=True)
    sum(each.square().mean() for each in leaves(seeded(call)) if each.requires_grad).backward()
    return [each.grad.clone() for each in model.parameters() if each.grad is not None]


def in_float64(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the results of the model in double precision."""
    args, kwargs = _pytree.tree_map_only(
        torch.Tensor, lambda each: each.double() if each.is_floating_point() else each, (args, kwargs)
    )
    return leaves(seeded(lambda: model.double()(*args, **kwargs)))


def prepared(name: str, threads: int) -> Model:
    """Set the number of threads and make a model in evaluation mode."""
    torch.set_num_threads(threads)
    nt.set_num_threads(threads)
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # Dynamo leaves it out too.
    model, args, kwargs = MODELS[name]()
    disturb(model.eval())
    return model, args, kwargs


def time_of(name: str, contender: str, threads: int) -> dict[str, Any]:
    """Return the shortest time of a call in milliseconds."""
    model, args, kwargs = prepared(name, threads)
    backend = CONTENDERS[contender]
    torch._dynamo.config.allow_rnn = backend is npu_tensor  # The usual setting for inductor.
    run = model if backend is None else torch.compile(model, backend=backend)
    times: list[float] = []
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        run(*args, **kwargs)
        while len(times) < REPETITIONS or sum(times) < MEASURED_SECONDS:
            start = time.perf_counter()
            run(*args, **kwargs)
            times.append(time.perf_counter() - start)
    return {contender: min(times) * 1e3}


def row_of(name: str, with_gradients: bool) -> dict[str, Any]:
    """Compare a model with eager and return what the table shows."""
    model, args, kwargs = prepared(name, 1)
    row: dict[str, Any] = {}
    compiled = torch.compile(model, backend=npu_tensor)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.no_grad():
            expected = leaves(seeded(lambda: model(*args, **kwargs)))
            start = time.process_time()
            results = leaves(seeded(lambda: compiled(*args, **kwargs)))
            row["first call"] = time.process_time() - start
            row["error"] = largest_error(results, expected)
            breaks = torch._dynamo.utils.counters["graph_break"]
            row |= {"breaks": sum(breaks.values()), "reasons": [*breaks]}
        if with_gradients:
            torch._dynamo.reset()
            model.train()
            expected_gradients = gradients(model, lambda: model(*args, **kwargs))
            own = gradients(model, lambda: torch.compile(model, backend=npu_tensor)(*args, **kwargs))
            row["gradients"] = largest_error(
                [torch.cat([g.flatten() for g in own])], [torch.cat([g.flatten() for g in expected_gradients])]
            )
            model.eval()
    row["left"] = [
        str(each.message).partition("left to PyTorch: ")[2] for each in caught if "left to PyTorch" in str(each.message)
    ]
    if row["error"] > LIMIT:
        with torch.no_grad():
            exact = in_float64(model, args, kwargs)
        row |= {"ours to float64": largest_error(results, exact), "eager to float64": largest_error(expected, exact)}
    return row


# --- processes


def _run(connection: Any, function: Callable[..., dict[str, Any]], *arguments: Any) -> None:
    try:
        connection.send(function(*arguments))
    except Exception as error:  # Models may fail in any way.
        lines = [*str(error).strip().splitlines(), ""]
        connection.send({"failure": f"{type(error).__name__}: {' '.join(lines[:4])}"})


def in_process(seconds: float, *call: Any) -> dict[str, Any]:
    """Call a function in a process that is forked from this one, which has imported the packages."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)
    process = context.Process(target=_run, args=(sender, *call))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(seconds) else {"failure": f"more than {seconds:g} s"}
    except EOFError:
        return {"failure": "the process died"}
    finally:
        process.kill()
        process.join()


# --- the table

COLUMNS: Final = {
    "error": "{:.0e}",
    "gradients": "{:.0e}",
    "breaks": "{}",
    "first call": "{:.1f}",
    "eager": "{:.3g}",
    "inductor": "{:.3g}",
    "ours": "{:.3g}",
    "ours to float64": "{:.0e}",
    "eager to float64": "{:.0e}",
}
"""Formats of the numbers of a row."""


def line_of(row: Mapping[str, Any]) -> str:
    """Return the line of a model."""
    if "failure" in row:
        return f"{row['model']:36} {row['failure']}"
    cells = [f"{column} {form.format(row[column])}" for column, form in COLUMNS.items() if column in row]
    failures = [f"; {peer} fails: {row[key]}" for peer in CONTENDERS if (key := f"{peer} failure") in row]
    return "".join([f"{row['model']:36} {', '.join(cells)}", *(f"; left: {each}" for each in row["left"]), *failures])


def summary(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the counts and geometric means of all rows."""
    good = [row for row in rows if "failure" not in row]
    yield f"{len(good)} of {len(rows)} models ran, {sum(row['error'] <= LIMIT for row in good)} within {LIMIT:g}"
    unbroken, whole = sum(row["breaks"] == 0 for row in good), sum(not row["left"] for row in good)
    yield f"{unbroken} without a graph break, {whole} without operators left to PyTorch"
    for peer in ("eager", "inductor"):
        logarithms = [math.log(row[peer] / row["ours"]) for row in good if peer in row]
        if logarithms:
            mean = math.exp(sum(logarithms) / len(logarithms))
            yield f"speed relative to {peer}, geometric mean of {len(logarithms)} models: {mean:.2f}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1)
@click.option("--gradients", is_flag=True, help="Compare the gradients of all parameters, in training mode.")
@click.option("--times", "threads", default=0, help="Measure eager, inductor and npu_tensor with this many threads.")
@click.option("--seconds", default=300.0, show_default=True, help="Time limit of a process.")
@json_option("the rows")
def main(words: tuple[str, ...], gradients: bool, threads: int, seconds: float, json_file: Path | None) -> None:
    """Compare compiled models with eager: those named or whose names contain one of WORDS, or all."""
    parts = [word for word in words if word not in MODELS]
    names = [name for name in MODELS if not words or name in words or any(part in name for part in parts)]
    for package, prefix in (("transformers", "hf."), ("timm", "timm.")):
        if any(name.startswith(prefix) for name in names):
            __import__(package)  # Forked processes have it then.
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # Graph breaks are counted.
    torch._dynamo.list_backends()
    rows = []
    for name in names:
        rows.append({"model": name} | in_process(seconds, row_of, name, gradients))
        for contender in CONTENDERS if threads else ():
            timed = in_process(seconds, time_of, name, contender, threads)
            rows[-1] |= {f"{contender} {key}" if key == "failure" else key: value for key, value in timed.items()}
        if json_file is None or str(json_file) != "-":
            print(line_of(rows[-1]), flush=True)
        if json_file is not None and str(json_file) != "-":
            put_json(json_file, rows)
    if not put_json(json_file, rows):
        print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main()
