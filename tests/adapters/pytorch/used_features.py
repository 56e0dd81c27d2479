"""Uses many features of torch, one after the other, and prints what each makes: the same with a recording around.

Each function below is a feature; ``python used_features.py NAME ...`` runs some of them.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import io
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
FEATURES: dict[str, Callable[[], Any]] = {}
X = torch.linspace(-1, 1, 12).view(3, 4)


def feature(function: Callable[[], Any]) -> Callable[[], Any]:
    FEATURES[function.__name__] = function
    return function


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def sums(*values: Any) -> list[str]:
    return [f"{float(torch.as_tensor(value).detach().double().sum()):.6g}" for value in values]


def train(model: nn.Module, call: Callable[[], Any] | None = None, kind: Any = torch.optim.SGD) -> list[str]:
    optimizer, losses = kind(model.parameters(), lr=0.1), []
    for _ in range(2):
        optimizer.zero_grad()
        loss = (call or (lambda: model(X)))().square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sums(*losses)


@feature
def transforms() -> Any:
    model = network()
    jvp = torch.func.jvp(model, (X,), (torch.ones_like(X),))
    return sums(*jvp, torch.func.jacrev(model)(X), torch.func.hessian(lambda x: model(x).sum())(X[0]))


@feature
def ensembles() -> Any:
    models = [network() for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def call(parameters: Any, buffers: Any, x: Any) -> Any:
        return torch.func.functional_call(base, (parameters, buffers), (x,))

    return sums(torch.vmap(call, in_dims=(0, 0, None))(parameters, buffers, X))


@feature
def dual_numbers() -> Any:
    from torch.autograd import forward_ad

    model = network()
    with forward_ad.dual_level():
        return sums(forward_ad.unpack_dual(model(forward_ad.make_dual(X, torch.ones_like(X)))).tangent)


class Exponential(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.saved_tensors[0]


@feature
def own_functions() -> Any:
    x = X.clone().requires_grad_()
    Exponential.apply(x).sum().backward()
    return sums(x.grad, torch.vmap(Exponential.apply)(X))


@feature
def modes() -> Any:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    names: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(getattr(function, "__name__", str(function)))
            return function(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    model = network()
    with Functions():
        torch.softmax(model(X), -1).sum()
    with Operators():
        model(X).sum().backward()
    with FlopCounterMode(display=False) as counter:
        model(X).sum().backward()
    return names, counter.get_total_flops()


@feature
def checkpoints() -> Any:
    from torch.utils.checkpoint import (
        checkpoint,
        checkpoint_sequential,
        create_selective_checkpoint_contexts,
    )

    model, kept = network(), [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    contexts = functools.partial(create_selective_checkpoint_contexts, kept)
    return [
        train(model, lambda: checkpoint(model, X, use_reentrant=False)),
        train(model, lambda: checkpoint(model, X, use_reentrant=False, context_fn=contexts)),
        train(model, lambda: checkpoint_sequential(model, 2, X, use_reentrant=False)),
    ]


@feature
def parametrizations() -> Any:
    from torch.nn.utils import parametrizations as kinds
    from torch.nn.utils import parametrize, prune

    model = nn.Sequential(kinds.weight_norm(nn.Linear(4, 8)), kinds.spectral_norm(nn.Linear(8, 8)))
    pruned = network()
    prune.l1_unstructured(pruned[0], "weight", 0.5)
    with parametrize.cached():
        cached = sums(model(X))
    return train(model), cached, train(pruned)


@feature
def hooks() -> Any:
    model, seen = network(), []
    model[0].register_forward_pre_hook(lambda *_: seen.append("before"))
    model[0].register_forward_hook(lambda _module, _args, result: result * 2)
    model[2].register_full_backward_hook(lambda _module, given, _returned: (given[0] * 3,))
    model[0].weight.register_hook(lambda gradient: gradient * 0.5)
    model[0].bias.register_post_accumulate_grad_hook(lambda _: seen.append("gradient"))
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    losses = train(model)
    handle.remove()
    return losses, seen


@feature
def saved_tensors() -> Any:
    model, seen = network(), []

    def pack(tensor: Any) -> Any:
        seen.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        losses = train(model)
    with torch.autograd.graph.save_on_cpu():
        return losses, train(model), len(seen)


@feature
def anomalies() -> Any:
    x = torch.zeros(3, requires_grad=True)
    try:
        with torch.autograd.detect_anomaly():
            (x.sqrt() * 0).sum().backward()
    except RuntimeError as error:
        return train(network()), str(error)[:60]
    return "nothing was found"


@feature
def beginnings() -> Any:
    lazy = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))
    lazy(X)
    with torch.device("meta"):
        model = network()
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.1)
    return len(list(lazy.parameters())), train(model)


@feature
def layouts() -> Any:
    embedding = nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(embedding.parameters())
    embedding(torch.tensor([1, 2, 1])).square().sum().backward()
    optimizer.step()
    complex_model = nn.Linear(4, 2, dtype=torch.cfloat)
    complex_model(X.to(torch.cfloat)).abs().sum().backward()
    return sums(
        embedding.weight, torch.eye(3).to_sparse_csr() @ X, torch.fft.rfft(X).abs(), complex_model.bias.grad.abs()
    )


@feature
def compilers() -> Any:
    model, other = network(), network()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    function = torch.compile(lambda x: F.gelu(x) * x.sum(), backend="aot_eager")
    program = torch.export.export(other, (X,))
    traced, graph = torch.jit.trace(other, X), torch.fx.symbolic_trace(other)
    return (
        train(model, lambda: compiled(X)),
        sums(function(X), program.module()(X), traced(X), graph(X), torch.jit.script(network())(X)),
        len(program.graph.nodes),
    )


@feature
def scripts() -> Any:
    model = torch.jit.script(network())
    return train(model), sums(torch.jit.freeze(torch.jit.script(network()).eval())(X))


@feature
def attention() -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    query = X.view(1, 1, 3, 4)
    with sdpa_kernel(SDPBackend.MATH):
        result = F.scaled_dot_product_attention(query, query, query, is_causal=True)
    recurrent = nn.LSTM(4, 3, batch_first=True)
    recurrent(X[None])[0].sum().backward()
    return sums(
        result, nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()(X[None]), recurrent.weight_ih_l0.grad
    )


@feature
def optimizers() -> Any:
    names = ("Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adadelta", "ASGD")
    model, seen = network(), []
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)
    for _ in range(3):
        model(X).sum().backward()
        optimizer.step()
        schedule.step()
    return [train(network(), kind=getattr(torch.optim, name)) for name in names], seen, schedule.get_last_lr()


@feature
def averages() -> Any:
    from torch.optim.swa_utils import AveragedModel, update_bn

    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    average, losses = AveragedModel(model), train(model)
    average.update_parameters(model)
    update_bn([X], average)
    return losses, sums(average.module[1].running_var)


@feature
def precisions() -> Any:
    model, scaler = network(), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rows = model(X)
    scaler.scale(rows.float().sum()).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return sums(rows, model[0].weight), str(rows.dtype)


@feature
def copies() -> Any:
    model, buffer = network(), io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    same = [pickle.loads(pickle.dumps(one)) is one for one in (F.gelu, torch.relu)]
    return sums(loaded(X), pickle.loads(pickle.dumps(model))(X), copy.deepcopy(model)(X)), same, F.gelu.__name__


class Own(nn.Module):
    """A call, a forward and attributes that are not the usual ones."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()
        self.forward = lambda x: self.inner(x) * 2

    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args) + 1

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Iterable[Any]:
        for _ in range(3):
            x = torch.tanh(self.layer(x))
            yield x


@feature
def own_modules() -> Any:
    return train(Own()), sums(*Steps()(X)), train(nn.DataParallel(network()))


@feature
def concurrency() -> Any:
    model, results = network(), [0] * 3

    async def one() -> Any:
        await asyncio.sleep(0)
        return model(X).sum()

    async def both() -> Any:
        return await asyncio.gather(one(), one())

    def trained(number: int) -> None:
        results[number] = len(train(network()))

    threads = [threading.Thread(target=trained, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sums(*asyncio.run(both())), results


@feature
def in_place() -> Any:
    x, out = X.clone(), torch.empty(3, 4)
    F.relu_(x)
    x.add_(1).mul_(2)
    x[0] = 5
    x[:, 1] += 1
    torch.add(X, 1, out=out)
    return sums(x, out)


@feature
def errors() -> Any:
    wrong: list[Callable[[], Any]] = [
        lambda: F.linear(X, X.view(4, 3)),
        lambda: nn.Linear(3, 2)(X),
        lambda: torch.cat([X, X[0]]),
        lambda: X.view(5),
    ]
    texts = []
    for one in wrong:
        try:
            one()
        except (RuntimeError, TypeError) as error:
            texts.append(f"{type(error).__name__}: {error}")
    return texts


@feature
def gradients() -> Any:
    model = network()
    parts = torch.autograd.grad(model(X).sum(), list(model.parameters()), create_graph=True)
    checked = torch.autograd.gradcheck(lambda x: torch.tanh(x).sum(), (X.double().requires_grad_(),))
    return sums(*parts), checked, sums(torch.autograd.functional.jacobian(model, X))


@feature
def loaders() -> Any:
    model = network()
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for (batch,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X), 2, num_workers=1):
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sums(*losses)


def main(names: list[str]) -> None:
    for name in names or FEATURES:
        torch.manual_seed(1)
        print(name, FEATURES[name](), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
