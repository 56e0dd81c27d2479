"""The silent errors of ``programs``, each with the place where it must be found, and the correct programs.

The place of an error is one of its parameters, one of its modules, or the line of its program that ends with the remark
``# planted`` (or the one a call comes from). It is found in time if a finding names step ``by`` or an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.layouts.layouts import LAYOUTS
from tests.parallel_modes.modes import MODES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MARK = "# planted"


@dataclass(frozen=True)
class Error:
    """One error of the list of TrainCheck.

    Args:
        name: the file below ``programs``, without ending.
        by: the last step in which it must be found.
        modules: paths of modules at which it is, as patterns of the shell.
        parameters: names of parameters that it concerns, as patterns of the shell.
        ranks: the size of its job.
        rank: the rank that is wrong; None where ranks are wrong together only.
        about: a pattern that the rule or its reason matches, for errors of the whole model or training.
        emulated: whether the fault of the hardware or library is emulated.
        counted: whether it is one of the 18 errors of the evaluation of TrainCheck.
        further: whether it is another program of a kind that has one, below ``programs/further``.
        group: the file below ``programs/mechanisms`` that holds it; its remark there is ``# planted: NAME``.
    """

    name: str
    by: int
    modules: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    ranks: int = 1
    rank: int | None = None
    about: str = ""
    emulated: bool = False
    counted: bool = True
    further: bool = False
    group: str = ""

    @property
    def file(self) -> Path:
        if self.group:
            return HERE / "programs" / "mechanisms" / f"{self.group}.py"
        return HERE / "programs" / ("further" if self.further else "") / f"{self.name}.py"

    def planted_line(self) -> int:
        """Return the number of the line with the remark."""
        lines = self.file.read_text(encoding="utf-8").splitlines()
        (number,) = (number for number, line in enumerate(lines, 1) if line.endswith(self.mark))
        return number

    @property
    def mark(self) -> str:
        """Return the remark at the end of the line with the fault."""
        return f"{MARK}: {self.name}" if self.group else MARK


@dataclass(frozen=True)
class Correct:
    """A program without an error: ``name`` in ``file`` below ``correct``; ``ranks`` is the size of its job."""

    name: str
    file: str
    ranks: int = 1
    arguments: tuple[str, ...] = ()


def _planted(
    group: str,
    name: str,
    by: int = 2,
    *,
    modules: str = "",
    parameters: str = "",
    about: str = "",
    ranks: int = 1,
    rank: int | None = None,
) -> Error:
    return Error(
        name, by, tuple(modules.split()), tuple(parameters.split()), ranks, rank, about, False, False, False, group
    )


MECHANISMS: tuple[Error, ...] = (
    _planted("gradients", "through_numpy", modules="filters*", parameters="filters*"),
    _planted("gradients", "no_straight_way", modules="encode*", parameters="encode*"),
    _planted("gradients", "frozen_temperature", parameters="scale"),
    _planted("gradients", "critic_keeps_gradients", parameters="critic*", about="gradients?.*(still|clear)"),
    _planted("gradients", "cleared_once", parameters="*", about="gradients?.*(still|clear)"),
    _planted("gradients", "balance_without_path", about="loss"),
    _planted("optimizers", "late_layer", modules="short*", parameters="short*"),
    _planted("optimizers", "unregistered_layers"),
    _planted("optimizers", "groups_with_a_hole", parameters="*norm*"),
    _planted("optimizers", "trains_the_copy", parameters="*", about="optimizer"),
    _planted("optimizers", "below_rounding", parameters="*", about="updated|stays|move"),
    _planted("optimizers", "resized_embedding", parameters="words*", modules="words*"),
    _planted("optimizers", "rate_written_back", 3, about="rate|schedul"),
    _planted("optimizers", "schedule_first", about="schedul"),
    _planted("optimizers", "warm_up_of_the_old_one", 3, about="rate|schedul"),
    _planted("optimizers", "clipped_before_the_pass", about="clip"),
    _planted("optimizers", "clipped_before_unscaling", about="divided"),
    _planted("passes", "transposed_mask", modules="layers.1*"),
    _planted("passes", "other_axis", modules="layers.1*"),
    _planted("passes", "always_dropped", modules="layers.1*"),
    _planted("passes", "stays_in_evaluation", modules="1* 2* 4*", about="evaluation"),
    _planted("passes", "validates_in_training", about="training mode|evaluat"),
    _planted("passes", "trunk_in_training", modules="trunk*", parameters="trunk*"),
    _planted("passes", "layer_without_autocast", modules="layers.2*"),
    _planted("passes", "root_of_zero", about="NaN|infinity"),
    _planted("passes", "all_hidden", about="NaN|infinity"),
    _planted("passes", "open_gate", modules="0*", about="saturat"),
    _planted("passes", "sum_of_neighbours", modules="layers*", about="grow"),
    _planted("passes", "workers_of_one_seed", 5, about="batch"),
    _planted("loops", "state_without_history", modules="encoder* source*", parameters="encoder* source*"),
    _planted("loops", "embeds_without_gradient", modules="patch norm", parameters="patch* norm*"),
    _planted("loops", "cleared_before_the_step", parameters="*", about="updated|moves|gradient|optimizer"),
    _planted("loops", "second_optimizer_rests", parameters="level* kind*"),
    _planted("loops", "loss_made_anew", parameters="*", about="loss"),
    _planted("loops", "layer_without_mask", modules="layers.3*"),
    _planted("loops", "head_replaced_later", parameters="head* embed*", about="tied"),
    _planted("loops", "overflows_in_half", about="infinity|NaN"),
    _planted("loops", "units_that_never_act", modules="3*", about="dead"),
    _planted("loops", "among_the_wrong_ranks", parameters="2.*", ranks=4),
    _planted("loops", "sampler_of_rank_zero", about="data|batch", ranks=2),
    _planted("arrivals", "moved_in_part", modules="writer"),
    _planted("arrivals", "moved_late", modules="writer"),
    _planted("arrivals", "captured_without_gradients", parameters="price* kind*"),
    _planted("arrivals", "clips_in_one", about="merged"),
    _planted("arrivals", "mask_by_hand", modules="1"),
    _planted("arrivals", "scaled_by_nothing", modules="0"),
    _planted("arrivals", "divided_twice", 7, about="rate"),
    _planted("ranks", "norm_of_a_part", parameters="last*", ranks=2),
    _planted("ranks", "ignored_by_ddp", parameters="*1.weight *1.bias", ranks=2),
    _planted("ranks", "unequal_start", parameters="*", ranks=2, about="replica|begin"),
    _planted("ranks", "ends_untied", parameters="ends*", ranks=2),
    _planted("ranks", "one_loader_for_all", about="data|batch", ranks=2),
    _planted("ranks", "epochs_alike", 8, about="epoch|batch", ranks=2),
    _planted("ranks", "other_order", ranks=2),
    _planted("ranks", "other_shape", ranks=2),
    _planted("ranks", "lost_in_broadcast", parameters="*", ranks=2, rank=1),
    _planted("ranks", "inner_model_called", parameters="*", about="reduced|replica", ranks=2),
)
"""Further mechanisms that ``msprobe check`` has to know, each in another model, optimizer and layout."""
ERRORS: tuple[Error, ...] = (
    Error("deepspeed_1801", 2, parameters=("*layernorm*", "2.*"), ranks=2),
    Error("deepspeed_5794", 1, modules=("moe",), ranks=2),
    Error("pytorch_84803", 2, parameters=("*",), ranks=2, rank=1, about="rank", emulated=True),
    Error("pytorch_96600", 1, parameters=("embedding*", "lstm*"), ranks=2, rank=1, emulated=True),
    Error("baichuan2_86", 1, ranks=2, rank=1, emulated=True),
    Error("pytorch_104336", 2, parameters=("*",), ranks=2, about="reduced|replica", emulated=True),
    Error("x_jxmnop", 2, parameters=("*",), ranks=2, about="reduced|replica"),
    Error("pytorch_115607", 2, parameters=("*",), about="updated|stays", emulated=True),
    Error("pytorch_forum_84911", 1, modules=("layer3*",), parameters=("layer3*",)),
    Error("stackoverflow_60335387", 2, about="gradients?.*(still|clear)"),
    Error("stackoverflow_67180955", 2, modules=("conv",)),
    Error("mmpretrain_702", 1, modules=("backbone.stages.[01]*",)),
    Error("pytorch_51800", 1, modules=("discriminator.*",), parameters=("discriminator.*",)),
    Error("lightning_thunder_725", 1, modules=("blocks.1.mlp*",), emulated=True),
    Error("transformers_17877", 2, modules=("encoder*",), parameters=("encoder*",)),
    Error("transformers_23723", 1),
    Error("transformers_33844", 1, modules=("layers.*.self_attn*",)),
    Error("transformers_34204", 1, modules=("vision*", "connector*")),
    Error("transformers_33455", 5, about="fewer|early|planned|never used", counted=False),
    Error("transformers_29903", 3, parameters=("blocks.*", "output*", "inputs*"), counted=False),
    Error("accelerate_2665", 1, parameters=("*",), ranks=2, about="optimizer", counted=False),
    Error("uncleared_by_hand", 2, about="gradients?.*(still|clear)", counted=False, further=True),
    Error("early_end", 3, about="fewer|early|planned", counted=False, further=True),
    Error("own_generation", 1, counted=False, further=True),
    Error("sharded_before", 1, parameters=("*",), ranks=2, about="optimizer", counted=False, further=True),
    Error("merged_images", 1, modules=("patches*",), counted=False, further=True),
    Error("scaled_down_checkpoint", 2, parameters=("*",), about="between|outside|chang", counted=False, further=True),
    Error("attention_without_autocast", 1, modules=("[12]*",), counted=False, further=True),
    Error("early_validation", 3, modules=("norm", "drop"), counted=False, further=True),
    Error("part_outside_ddp", 1, parameters=("score*",), ranks=2, counted=False, further=True),
    *MECHANISMS,
)


def _each(file: str, names: str, ranks: int = 1) -> tuple[Correct, ...]:
    return tuple(Correct(name, file, ranks) for name in names.split())


SPREAD = tuple(name for name, layout in LAYOUTS.items() if layout.size > 1)[::4]
"""Every fourth layout of ``tests.layouts`` with several ranks."""
CORRECT: tuple[Correct, ...] = (
    *_each("architectures", "gpt2 llama bert t5 vit mistral mixtral opt distilbert resnet falcon gemma2 electra"),
    *_each("objectives", "gan vae diffusion policy two_tower stop_gradient distillation dqn ctc factorization"),
    *_each(
        "practices",
        "accumulation lora tying unused_experts validation warm_up ema frozen_norm transfer recomputation "
        "compiled resume lbfgs layer_drop spectral_norm scaler growing workers",
    ),
    *_each("trainers", "hf hf_accumulating lightning lightning_manual generate sample unchanged_script"),
    *_each("parallel", "ddp no_sync fsdp tensor sequence zero", ranks=2),
    *_each("exchanges", "pipeline experts sync_norm vocabulary ring", ranks=2),
    *_each(
        "borders",
        "begins_as_its_shortcut terms_of_opposite_sign fake_quantised one_baseline_for_all head_of_zeros_accumulated "
        "boxes_or_a_loss random_signs second_phase pruned_between_steps",
    ),
    *_each(
        "habits",
        "branches_at_zero one_cycle cyclic group_of_rate_zero thawed_layer_by_layer sharpness_aware stochastic_average "
        "lookahead averaged_for_evaluation transposed_decoder penalised_critic dropped_on_purpose "
        "several_epochs_of_a_rollout reversed_gradients weights_from_a_network carried_state skipped_by_the_scaler "
        "alternating reentrant",
    ),
    *_each(
        "customs",
        "own_optimizers_in_the_pass reads_backwards window_and_prefix rounded_weights measured_by_another "
        "competing_slots half_precision_warm_up labels_of_its_own generator_rests density",
    ),
    *_each(
        "jobs",
        "averaged_now_and_then idle_experts stages_with_tied_ends shards_in_bfloat16 uneven_end epochs_told "
        "rounds_of_one_model",
        ranks=2,
    ),
    Correct("mesh_of_four", "jobs", 4),
    *_each("examples", "byte_transformer sglang vllm_ascend"),
    *_each(
        "borrowed",
        "benign-llama/fused-norm benign-gpt2/sdpa benign-bert/copied-loss benign-t5/sdpa-bf16 benign-vit/logged-norms "
        "benign-mixtral/foreach benign-mamba/own-softplus benign-resnet/mean-pool benign-lstm/zeroed-gradients "
        "benign-unet/mean-square benign-llama/generation-sdpa",
    ),
    *(Correct(f"mode-{name}", "borrowed", mode.size) for name, mode in MODES.items()),
    *(Correct(f"layout-{name}", "borrowed", LAYOUTS[name].size) for name in SPREAD),
)
