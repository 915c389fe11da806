"""Random training programs, in PyTorch and here: losses, rates, parameters and gradients must be the same.

    python tests/fuzz/training.py --kind modules --programs 10000 --seed 0
    python tests/fuzz/training.py --kind optimizers --programs 1 --seed 123 --show    # its text

Programs of `modules` make a small network of random layers and train it for ten steps: as built, copied, pickled,
loaded, cast, partly frozen, with a step that `nt.jit` has captured or one that it has not. Programs of `optimizers`
train a few tensors with random options, with up to two schedules, and change options, freeze, reset, copy and load
between the steps. At their end each library goes on from the state of the other. All values are float64.
"""

import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from drawing import name_of
from programs import (
    OURS,
    TORCH,
    Program,
    compare_scopes,
    difference,
    execute,
    run_seeds,
    scope_of,
    seeds_parser,
    shown,
    shrink,
)

import npu_tensor as nt

IMPORTS = "import copy, json, pickle, numpy as np"
OPTIMIZERS = ("SGD", "SGD", "Adam", "AdamW", "RMSprop")
ACTIVATIONS = (
    "ELU()", "GELU()", "Hardswish()", "LeakyReLU(0.1)", "Mish()", "PReLU()", "ReLU()", "SELU()", "Sigmoid()", "SiLU()",
    "Softplus()", "Softsign()", "Tanh()", "Softmax(-1)", "LogSoftmax(-1)", "Identity()", "Dropout(0.0)",
)  # fmt: skip
CONSTANT = "constant = nt.ones((), dtype=nt.float64, requires_grad=True)"
"""A leaf with which there is a backward pass also when all others are frozen."""

STEP = """def update(x, y):
    o.zero_grad()
    constant.grad = None
    loss = criterion(forward(x), y)
    (loss + constant).backward()
    o.step()
    return loss.detach()"""


def optimizer_options(rng: random.Random, name: str) -> str:
    """Arguments of an optimizer, few of which it refuses."""
    rates = ["0.01", "0.02", "np.float64(0.01)", "nt.tensor(0.01, dtype=nt.float64)"]
    # PyTorch computes some factors of the others in float32 then.
    options = {"lr": rng.choice([*rates, "np.float32(0.01)"] if name == "SGD" else rates)}
    if rng.random() < 0.4:
        options["weight_decay"] = rng.choice(["0.1", "0.01", "1"])
    if rng.random() < 0.2:
        options["maximize"] = "True"
    if name in ("SGD", "RMSprop") and rng.random() < 0.6:
        options["momentum"] = rng.choice(["0.9", "0.5", "1"])
    if name == "SGD" and rng.random() < 0.3:
        options[rng.choice(["nesterov", "dampening"])] = rng.choice(["0.5", "True", "0.1"])
    if name.startswith("Adam"):
        if rng.random() < 0.5:
            options["betas"] = rng.choice(["(0.5, 0.9)", "[0.8, 0.99]", "(0.0, 0.5)", "(0.9, 1.0)"])
        if rng.random() < 0.3:
            options["amsgrad"] = "True"
    if name == "RMSprop" and rng.random() < 0.5:
        options |= {"centered": "True", "alpha": rng.choice(["0.9", "0.5"])}
    return ", ".join(f"{key}={value}" for key, value in options.items())


# --- modules


class _Network:
    """Layers and the lines of a function that calls them, for inputs of a shape without the batch."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.layers: list[str] = []
        self.calls: list[str] = []
        kind = rng.choice(["flat", "line", "image", "tokens", "sequence"])
        self.shape = {"flat": [6], "line": [4, 8], "image": [4, 6, 6], "tokens": [5], "sequence": [5, 4]}[kind]
        self.first, self.kind = list(self.shape), kind
        if kind == "tokens":
            padding = rng.choice(["", ", padding_idx=1", ", -2"])
            self._add(f"Embedding(7, 4{padding})", [5, 4])
            self.kind = "sequence"
        for _ in range(rng.randint(1, 5)):
            self._draw()
        while not self.layers:
            self._draw()

    def _add(self, layer: str, shape: list[int], call: str = "m[{}](x)") -> None:
        call = call.format(len(self.layers))
        if shape == self.shape and self.random.random() < 0.15:
            call = f"x + {call}"
        self.layers.append(f"nt.nn.{layer}")
        self.calls.append(f"x = {call}")
        if shape == self.shape and self.random.random() < 0.1:
            self.calls.append(f"x = {call}")  # one layer at two places
        self.shape = shape

    def _draw(self) -> None:
        rng, shape = self.random, list(self.shape)
        if rng.random() < 0.35:
            self._add(rng.choice(ACTIVATIONS), shape)
            return
        channels, wide = shape[0], rng.choice([2, 4, 6])
        bias = rng.choice(["", "", ", bias=False"])
        if self.kind in ("flat", "sequence"):
            last = shape[-1]
            forms: list[tuple[str, list[int], str]] = [(f"Linear({last}, {wide}{bias})", [*shape[:-1], wide], "")] * 3
            forms += [(f"LayerNorm({last}{bias})", shape, ""), (f"RMSNorm({last})", shape, "")]
        if self.kind == "flat":
            forms += [(f"BatchNorm1d({channels})", shape, ""), (f"GroupNorm(2, {channels})", shape, "")]
            forms += [(f"BatchNorm1d({channels}, momentum=None, affine=False)", shape, "")]
            forms += [(f"Sequential(nt.nn.Linear({channels}, 3), nt.nn.Tanh(), nt.nn.Linear(3, {wide}))", [wide], "")]
            forms += [(f"Unflatten(1, (2, {channels // 2}))", [2, channels // 2], "")]
        elif self.kind == "sequence":
            last, heads = shape[-1], rng.choice([1, 2])
            options = f"batch_first=True, norm_first={rng.random() < 0.5}"
            layer = f"TransformerEncoderLayer({last}, {heads}, 6, 0.0, {options})"
            whole = f"TransformerEncoder(nt.nn.{layer}, 2)"
            forms += [(layer, shape, ""), (whole, shape, "")]
            forms += [(f"MultiheadAttention({last}, {heads}, batch_first=True{bias})", shape, "m[{}](x, x, x)[0]")]
            for name in ("RNN", "LSTM", "GRU"):
                ways = rng.choice([1, 2])
                options = f"{rng.choice([1, 2])}, batch_first=True, bidirectional={ways == 2}{bias}"
                forms += [(f"{name}({last}, 3, {options})", [shape[0], 3 * ways], "m[{}](x)[0]")]
            forms += [("Flatten()", [int(np.prod(shape))], "")]
        elif self.kind == "line":
            width = shape[1]
            forms = [(f"Conv1d({channels}, {wide}, 3, padding=1{bias})", [wide, width], "")] * 2
            forms += [(f"Conv1d({channels}, {wide}, 1, groups=2)", [wide, width], "")]
            forms += [(f"ConvTranspose1d({channels}, {wide}, 2, 2)", [wide, 2 * width], "")]
            forms += [(f"BatchNorm1d({channels})", shape, ""), (f"GroupNorm(2, {channels})", shape, "")]
            forms += [(f"{rng.choice(['Max', 'Avg'])}Pool1d(2, ceil_mode=True)", [channels, (width + 1) // 2], "")]
            forms += [("AdaptiveAvgPool1d(2)", [channels, 2], ""), ("Flatten()", [int(np.prod(shape))], "")]
        elif self.kind == "image":
            height, width = shape[1:]
            mode = rng.choice(["zeros", "circular", "replicate", "reflect"])
            forms = [(f"Conv2d({channels}, {wide}, 3, padding=1, padding_mode='{mode}'{bias})", [wide, *shape[1:]], "")]
            forms += [(f"Conv2d({channels}, {wide}, (1, 2), groups=2, padding='same')", [wide, *shape[1:]], "")]
            forms += [(f"ConvTranspose2d({channels}, {wide}, 2, 2)", [wide, 2 * height, 2 * width], "")]
            forms += [(f"BatchNorm2d({channels})", shape, ""), (f"GroupNorm(2, {channels})", shape, "")]
            halves = [channels, (height + 1) // 2, (width + 1) // 2]
            forms += [(f"{rng.choice(['Max', 'Avg'])}Pool2d(2, ceil_mode=True)", halves, "")]
            forms += [("Upsample(scale_factor=2.0)", [channels, 2 * height, 2 * width], "")]
            forms += [("AdaptiveAvgPool2d(2)", [channels, 2, 2], ""), ("Flatten()", [int(np.prod(shape))], "")]
        layer, after, call = rng.choice(forms)
        if int(np.prod(after)) > 300 or ("reflect" in layer and min(shape[1:]) < 2):
            return
        self._add(layer, after, call or "m[{}](x)")
        if layer == "Flatten()":
            self.kind = "flat"
        elif layer.startswith("Unflatten"):
            self.kind = "line"


FILLED = (
    "with nt.no_grad(): [p.copy_((nt.arange(p.numel(), dtype=nt.float64) * 0.7 + n + 0.3).sin().reshape(p.shape) * 0.4)"
    " for n, p in enumerate(m.parameters())]"
)
LOADED = (
    "s = m.state_dict(); m = copy.deepcopy(m); [nt.nn.init.zeros_(p) for p in m.parameters()]; m.load_state_dict(s)"
)
WAYS = (
    "m = copy.deepcopy(m)",
    "m = pickle.loads(pickle.dumps(m))",
    LOADED,
    "m = copy.deepcopy(m).float().double()",
    "with nt.no_grad(): m = copy.deepcopy(m)",
    "m.requires_grad_(False); m = copy.deepcopy(m).requires_grad_(True)",
    "m = copy.deepcopy(m).eval()",
    "if hasattr(m[0], 'weight'): m[0].weight = nt.nn.Parameter(m[0].weight * 2)",
)


def draw_module(seed: int) -> Program:
    """The program of a network."""
    rng = random.Random(seed)
    network = _Network(rng)
    name = rng.choice(OPTIMIZERS)
    # Some gradients are zero but for rounding, which is not to be divided by its own size.
    options = optimizer_options(rng, name) + ", eps=1e-3" * (name != "SGD")
    optimizer = f"o = nt.optim.{name}([p for p in m.parameters() if p.requires_grad], {options})"
    batch = rng.choice([2, 3, 4])
    size = batch * int(np.prod(network.first))
    inputs = f"(nt.arange({size}, dtype=nt.float64) * 1.3).cos().reshape({[batch, *network.first]})"
    if network.layers[0].startswith("nt.nn.Embedding"):
        inputs = f"(nt.arange({size}) * 3 % 7).reshape({[batch, *network.first]})"
    shape = [batch, *network.shape]
    labels = f"(nt.arange({int(np.prod(shape))}, dtype=nt.float64) * 0.9).sin().reshape({shape})"
    criterion = rng.choice(["MSELoss()", "MSELoss()", "SmoothL1Loss()", "L1Loss(reduction='sum')", "HuberLoss()"])
    if len(network.shape) == 1 and rng.random() < 0.5:
        labels, criterion = f"nt.arange({batch}) % {network.shape[0]}", "CrossEntropyLoss(label_smoothing=0.1)"
    # One statement, as without the second line the parameters are random.
    statements = [IMPORTS, f"m = nt.nn.Sequential({', '.join(network.layers)}).double()\n{FILLED}"]
    statements += rng.sample(WAYS, rng.choice([0, 1, 1, 2]))
    if rng.random() < 0.2:
        statements.append(f"m[{rng.randrange(len(network.layers))}].requires_grad_(False)")
    statements += ["\n    ".join(["def forward(x):", *network.calls, "return x"]), f"x = {inputs}", f"y = {labels}"]
    statements += [f"criterion = nt.nn.{criterion}", optimizer, CONSTANT, STEP]
    captured = rng.random() < 0.4
    step = "step = nt.jit(update)" if captured else "step = update"
    statements += [step, "losses = [step(x, y) for _ in range(5)]"]
    if rng.random() < 0.4:
        again = rng.choice(["copy.deepcopy((m, o))", "pickle.loads(pickle.dumps((m, o)))"])
        statements += [f"m, o = {again}", step]
    statements += ["more = [step(x, y) for _ in range(5)]", "state = list(m.state_dict().values())"]
    return Program((*statements, "gradients = [p.grad for p in m.parameters() if p.requires_grad]"))


# --- optimizers

LOSS = """def update(x):
    o.zero_grad()
    constant.grad = None
    loss = sum(((v * v - x[0]) ** 2).mean() * (n + 1) + (v * x[1]).sum().sin() for n, v in enumerate(w))
    (loss + constant).backward()
    o.step()
    return loss.detach()"""


def _schedule(rng: random.Random, name: str) -> str:
    forms = [f"StepLR(o, {rng.randint(1, 4)}, {rng.choice([0.5, 0.1, 2])})"]
    forms += [f"LinearLR(o, 0.25, total_iters={rng.randint(1, 6)})"]
    forms += [f"CosineAnnealingLR(o, {rng.randint(1, 6)}, {rng.choice([0.0, 0.001])})"]
    forms += [f"LinearLR(o, 1.0, 0.5, {rng.randint(1, 6)})", "LambdaLR(o, lambda step: 1 / (1 + step))"]
    forms += [f"ReduceLROnPlateau(o, patience={rng.randint(0, 2)}, threshold=0.1, cooldown={rng.randint(0, 1)})"]
    forms += [f"OneCycleLR(o, 0.05, total_steps=60, three_phase={rng.random() < 0.3}, pct_start=0.1)"]
    if name in ("SGD", "RMSprop"):
        forms += ["OneCycleLR(o, 0.05, total_steps=60, anneal_strategy='linear', cycle_momentum=False)"]
    forms += ["SequentialLR(o, [L.LinearLR(o, 0.5, total_iters=2), L.StepLR(o, 2, 0.5)], [3])"]
    forms += ["SequentialLR(o, [L.CosineAnnealingLR(o, 3), L.LinearLR(o, 0.5, total_iters=3), L.StepLR(o, 2)], [2, 5])"]
    return f"L.{rng.choice(forms)}"


def draw_optimizer(seed: int) -> Program:
    """The program of an optimizer."""
    rng = random.Random(seed)
    name = rng.choice(OPTIMIZERS)
    shapes = [rng.choice([[2], [3, 2], [], [1, 4]]) for _ in range(rng.randint(1, 3))]
    tensors = [
        f"nt.arange({number}, {number + int(np.prod(shape))}).double().cos().add(1.5).reshape({shape}).requires_grad_()"
        for number, shape in enumerate(shapes)
    ]
    params = "w" if rng.random() < 0.5 or len(shapes) == 1 else "[{'params': w[:1], 'lr': 0.03}, {'params': w[1:]}]"
    made = f"o = nt.optim.{name}({params}, {optimizer_options(rng, name)})"
    schedules = [f"s{number} = {_schedule(rng, name)}" for number in range(rng.choice([0, 1, 1, 2]))]
    names = [each.split(" ")[0] for each in schedules]
    captured = rng.random() < 0.4
    step = "step = nt.jit(update)" if captured else "step = update"
    start = [IMPORTS, "L = nt.optim.lr_scheduler", f"w = [{', '.join(tensors)}]", made, *schedules, LOSS, step]
    x = "x = nt.tensor([1.0, 0.25], dtype=nt.float64)"
    metrics = [f"{each}.step({'loss' * ('Plateau' in text)})" for each, text in zip(names, schedules, strict=True)]
    run = [
        "loss = step(x)",
        "losses.append(loss)",
        *metrics,
        "rates += [nt.tensor(float(g['lr']), dtype=nt.float64) for g in o.param_groups]",
        *(f"rates += [nt.tensor(float(r), dtype=nt.float64) for r in {each}.get_last_lr()]" for each in names),
    ]
    statements = [*start, CONSTANT, x, "losses, rates = [], []"]
    for _ in range(rng.randint(2, 6)):
        statements.append("\n    ".join([f"for _ in range({rng.randint(1, 4)}):", *run]))
        change = _change(rng, name, made, schedules, names)
        # A captured step keeps which terms there are, and which tensors have gradients, but follows the rates.
        follows = all("['lr'] = " in each or ".update(lr=" in each for each in change)
        statements += change if follows else [*change, step]
    statements.append("\n    ".join([f"for _ in range({rng.randint(1, 3)}):", *run]))
    return Program((*statements, "gradients = [v.grad for v in w]"))


def _change(rng: random.Random, name: str, made: str, schedules: list[str], names: list[str]) -> list[str]:
    """Statements between the steps."""
    group, tensor = f"o.param_groups[{rng.choice([0, -1])}]", "w[0]"
    rate = rng.choice(["0.02", "np.float64(0.01)", "0", "0.005"])
    everything = f"w, o{''.join(f', {each}' for each in names)}"
    again = [made, *schedules, "o.load_state_dict(a)", *(f"{each}.load_state_dict(b_{each})" for each in names)]
    saved = ["a = o.state_dict()", *(f"b_{each} = {each}.state_dict()" for each in names)]
    forms = [
        [f"{group}['lr'] = {rate}"],
        [f"{group}['lr'] = {group}['lr'] * 0.5"],
        [f"{group}.update(lr={rate})"],
        [f"{group}['weight_decay'] = {rng.choice(['0', '0.1'])}"],
        [f"{tensor}.requires_grad_(False)"],
        [f"{tensor}.requires_grad_(False)", f"{tensor}.requires_grad_(True)"],
        [f"{tensor}.requires_grad_(True)"],
        [f"{tensor}.requires_grad_(False)", "o.step()", f"{tensor}.requires_grad_(True)"],
        ["o.zero_grad(set_to_none=False)", "o.step()"],
        [f"{everything} = copy.deepcopy(({everything}))"],
        [*saved, *again],
        ["v = nt.ones(2, dtype=nt.float64).requires_grad_()", "w.append(v)", "o.add_param_group({'params': [v]})"]
        if not schedules
        else [],
        ["o.state.clear()"],
    ]
    if not any("lambda" in each for each in schedules):
        forms += [[f"{everything} = pickle.loads(pickle.dumps(({everything})))"]]
    if name == "SGD":
        forms += [[f"{group}['momentum'] = {rng.choice(['0.9', '0', '0.5'])}"]] * 2
    if name.startswith("Adam"):
        forms += [[f"{group}['betas'] = json.loads('[0.7, 0.8]')"]]
    return rng.choice(forms)


def exchanged(program: Program) -> str:
    """The difference after each library has gone on from the other's state; nothing if there is none."""
    theirs, ours = scope_of(TORCH), scope_of(OURS)
    for statement in program.statements:
        if execute(statement, theirs) or execute(statement, ours):
            return ""
    go_on = "for _ in range(3): update(x)"
    with torch.no_grad(), nt.no_grad():
        for own, other in zip(ours["w"], theirs["w"], strict=True):
            values = own.numpy().copy()
            own.copy_(nt.from_numpy(other.detach().numpy()))
            other.copy_(torch.from_numpy(values))
    their_state = theirs["o"].state_dict()
    their_state = {**their_state, "state": {key: dict(value) for key, value in their_state["state"].items()}}
    to_ours, to_theirs = _cloned(their_state), ours["o"].state_dict(torch.from_dlpack)
    ours["o"].load_state_dict(to_ours)
    theirs["o"].load_state_dict(to_theirs)
    for scope in (theirs, ours):
        if error := execute(go_on, scope):
            return f"after an exchange of states: {shown(error)}"
    what = compare_scopes({"w": theirs["w"]}, {"w": ours["w"]}, compare)
    return what and f"after an exchange of states: {what}"


def _cloned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cloned(each) for key, each in value.items()}
    return value.clone() if torch.is_tensor(value) else value


def compare(name: str, theirs: Any, ours: Any) -> str:
    """Return how two tensors differ, or nothing."""
    if name_of(theirs.dtype) != ours.dtype.name or tuple(theirs.shape) != tuple(ours.shape):
        return f"{name} is {ours.dtype.name}{list(ours.shape)}, in PyTorch {name_of(theirs.dtype)}{list(theirs.shape)}"
    if theirs.requires_grad != ours.requires_grad:
        return f"{name}.requires_grad is {ours.requires_grad}, in PyTorch {theirs.requires_grad}"
    expected, values = theirs.detach().numpy(), ours.numpy()
    largest = np.abs(expected).max(initial=1)
    if not largest < 1e6 or np.allclose(values, expected, rtol=1e-6, atol=1e-7 * largest):
        return ""
    return f"{name} is {values.tolist()}, in PyTorch {expected.tolist()}"


def _is_different(kind: str, program: Program) -> str:
    return difference(program, compare) or (exchanged(program) if kind == "optimizers" else "")


KINDS: dict[str, Callable[[int], Program]] = {"modules": draw_module, "optimizers": draw_optimizer}


def failure(kind: str, seed: int) -> str:
    """The shortest program of this seed that differs, and how; nothing if it does not."""
    program = KINDS[kind](seed)
    if not (what := _is_different(kind, program)):
        return ""
    short = shrink(program, compare) if difference(program, compare) else program
    return f"{short}\n# {_is_different(kind, short) or what}"


def main() -> int:
    parser = seeds_parser(__doc__)
    parser.add_argument("--kind", choices=KINDS, default="modules")
    given = parser.parse_args()
    return run_seeds(given, KINDS[given.kind], partial(failure, given.kind))


if __name__ == "__main__":
    sys.exit(main())
