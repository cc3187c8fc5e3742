"""A good call of everything that is public, for tests that make one argument of it bad.

Names of arrays stand for tensors: `x` (2, 3), `y` alike, `v` (3,), `k` integer labels (2,), `b` a
mask (2, 3), `i` an image (1, 2, 5, 5), `w` filters (3, 2, 3, 3), `s` a sequence (2, 4, 6), `p`
probabilities (2, 3).
"""

import numpy as np

HOSTS = {
    "x": np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]], np.float32),
    "y": np.array([[1.0, 0.5, -2.0], [0.0, 2.0, 1.0]], np.float32),
    "v": np.array([1.0, 2.0, 3.0], np.float32),
    "k": np.array([0, 2]),
    "j": np.array([[0, 1, 0], [1, 0, 1]]),
    "b": np.array([[True, False, True], [False, True, False]]),
    "i": np.linspace(-1.0, 1.0, 50, dtype=np.float32).reshape(1, 2, 5, 5),
    "w": np.linspace(-1.0, 1.0, 54, dtype=np.float32).reshape(3, 2, 3, 3),
    "s": np.linspace(-1.0, 1.0, 48, dtype=np.float32).reshape(2, 4, 6),
    "p": np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], np.float32),
}


class Of:
    """A tensor of HOSTS, by name, made for each call."""

    def __init__(self, name):
        self.name = name


def call(*args, **options):
    """Arguments; a name of HOSTS among positional ones stands for its tensor."""
    return tuple(Of(a) if isinstance(a, str) and a in HOSTS else a for a in args), options


FUNCTIONS = {
    "add_along_axis": call("x", "j", "y", axis=0),
    "arange": call(0, 5, 2, dtype="int64"),
    "argsort": call("x", 1, descending=True),
    "bernoulli": call((2,), 0.5, dtype="bool"),
    "binary_cross_entropy": call("p", "p", reduction="sum"),
    "binary_cross_entropy_with_logits": call("x", "p", reduction="sum"),
    "boolean_mask": call("x", "b"),
    "chunk": call("x", 2, 1),
    "clip": call("x", 0.0, 1.0),
    "cross_entropy": call("x", "k", axis=1, reduction="mean", label_smoothing=0.1),
    "diagonal": call("x", 1, 0, 1),
    "dropout": call("x", p=0.5, training=True),
    "empty": call((2, 3), dtype="int32"),
    "expand_dims": call("x", 1),
    "eye": call(2, 3, k=1, dtype="int32"),
    "flatten": call("x", 0, 1),
    "flip": call("x", (0, 1)),
    "full_like": call("x", 1.0, dtype="float64"),
    "getitem": call("x", (0, slice(None))),
    "global_avg_pool": call("i"),
    "global_max_pool": call("i"),
    "glu": call("s", 1),
    "hard_shrink": call("x", 0.5),
    "huber_loss": call("x", "y", delta=1.0, reduction="none"),
    "kl_div": call("x", "p", log_target=False, reduction="batchmean"),
    "l1_loss": call("x", "y", reduction="mean"),
    "lerp": call("x", "y", 0.5),
    "linspace": call(0.0, 1.0, 4, endpoint=True, dtype="float32"),
    "matrix_transpose": call("x"),
    "meshgrid": call("v", "v", indexing="xy"),
    "moveaxis": call("x", (0, 1), (1, 0)),
    "mse_loss": call("x", "y", reduction="mean"),
    "nll_loss": call("x", "k", axis=1, reduction="mean"),
    "nonzero": call("x"),
    "normal": call((2,), 0.0, 1.0, dtype="float32"),
    "one_hot": call("k", 3, dtype="int32"),
    "ones": call((2,), dtype="int8"),
    "ones_like": call("x", dtype="int8"),
    "outer": call("v", "v"),
    "pad": call("x", ((1, 1), (0, 2)), 0.0, mode="constant"),
    "permutation": call(3),
    "put_along_axis": call("x", "j", "y", axis=0),
    "rand": call((2,), dtype="float32"),
    "rand_like": call("x", dtype="float64"),
    "randint": call(0, 5, (2,), dtype="int32"),
    "randn": call((2,), dtype="float32"),
    "randn_like": call("x", dtype="float64"),
    "relu6": call("x"),
    "repeat": call("x", 2, 1),
    "roll": call("x", (1, 2), (0, 1)),
    "scaled_dot_product_attention": call(
        "x", "x", "x", causal=False, scale=0.5, dropout_p=0.5, training=True
    ),
    "smooth_l1_loss": call("x", "y", beta=1.0, reduction="none"),
    "soft_shrink": call("x", 0.5),
    "split": call("x", [1, 2], 1),
    "squeeze": call("x", ()),
    "stack": call([Of("x"), Of("y")], 1),
    "sum_to": call("x", (1, 3)),
    "swapaxes": call("x", 0, 1),
    "take": call("x", "k", axis=1),
    "take_along_axis": call("x", "j", axis=0),
    "tanh_shrink": call("x"),
    "tensordot": call("x", "x", axes=([0, 1], [0, 1])),
    "threshold": call("x", 0.5, 1.0),
    "tile": call("x", (2, 1)),
    "topk": call("x", 2, 1, largest=True),
    "tril": call("x", k=1),
    "triu": call("x", k=1),
    "unbind": call("x", 1),
    "unflatten": call("x", 1, (3, 1)),
    "uniform": call((2,), 0.0, 1.0, dtype="float32"),
    "unique": call("x", return_inverse=True, return_counts=True),
    "unstack": call("x", 1),
    "vecdot": call("x", "y", axis=0),
    "vector_norm": call("x", 2, 1, keepdims=True),
    "zeros": call((2,), dtype="float32"),
    "zeros_like": call("x", dtype="int8"),
}

METHODS = {
    "__getitem__": call("x", (slice(0, 2), 1)),
    "__setitem__": call("x", (0, slice(None)), 1.0),
    "__pow__": call("x", 2),
    "argmax": call("x", 1, keepdims=True),
    "assign": call("x", "y"),
    "astype": call("x", "float64"),
    "broadcast_to": call("x", 2, 2, 3),
    "clip": call("x", 0.0, 1.0),
    "cumsum": call("x", 1),
    "fill_": call("x", 1.0),
    "log_softmax": call("x", 1),
    "masked_fill": call("x", "b", 1.0),
    "matmul": call("x", "v"),
    "max": call("x", 1, keepdims=True),
    "permute": call("x", 1, 0),
    "reshape": call("x", 3, 2),
    "softmax": call("x", 1),
    "sort": call("x", 1, descending=True),
    "std": call("x", 1, correction=1.0, keepdims=True),
    "sum": call("x", (0, 1), keepdims=True),
    "to": call("x", "cpu_numpy"),
    "transpose": call("x", 1, 0),
    "var": call("x", 1, correction=1.0, keepdims=True),
}

# class -> (arguments of the constructor, what the layer is called on)
LAYERS = {
    "AdaptiveAvgPool2d": (call((2, 2)), call("i")),
    "AvgPool2d": (call(2, stride=1, padding=0, ceil_mode=False, count_include_pad=True), call("i")),
    "BatchNorm2d": (call(2, eps=1e-5, momentum=0.1), call("i")),
    "Conv2d": (
        call(4, 3, stride=1, padding=1, dilation=1, groups=1, bias=True, in_channels=2,
             weight_init="he_uniform", bias_init="zeros"),
        call("i"),
    ),
    "ConvTranspose2d": (call(4, 3, stride=2, output_padding=1), call("i")),
    "Dropout": (call(0.5), call("x")),
    "Embedding": (call(5, 3, weight_init="normal"), call("k")),
    "Flatten": (call(1), call("i")),
    "GELU": (call("none"), call("x")),
    "GlobalAvgPool": (call(keepdims=True), call("i")),
    "GroupNorm": (call(2, eps=1e-5), call("i")),
    "LayerNorm": (call(1, eps=1e-5, bias=True), call("x")),
    "LeakyReLU": (call(0.1), call("x")),
    "Linear": (
        call(4, in_features=3, bias=True, weight_init="glorot_uniform", bias_init="zeros"),
        call("x"),
    ),
    "LogSoftmax": (call(-1), call("x")),
    "MaxPool2d": (call(2, stride=1, padding=0, dilation=1, ceil_mode=False), call("i")),
    "MultiHeadAttention": (call(6, 2, dropout=0.1, bias=True), call("s")),
    "PositionEmbedding": (call(6), call("s")),
    "ReLU": (call(), call("x")),
    "RMSNorm": (call(1, eps=1e-5), call("x")),
    "Reshape": (call((3, 1)), call("x")),
    "Softmax": (call(-1), call("x")),
    "TransformerEncoderLayer": (call(6, 2, 8, dropout=0.1, norm_first=True), call("s")),
}  # fmt: skip

OTHERS = {
    "opt.SGD": call(0.1, momentum=0.9, dampening=0.0, nesterov=False, weight_decay=0.1),
    "opt.Adam": call(0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0),
    "opt.AdamW": call(0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0),
    "opt.RMSprop": call(0.1, decay=0.9, eps=1e-8, momentum=0.1, weight_decay=0.0),
    "opt.Adagrad": call(0.1, eps=1e-8, weight_decay=0.0),
    "opt.Constant": call(0.1),
    "opt.Cosine": call(0.1, 5, 0.0),
    "opt.Exponential": call(0.1, 0.9, 2),
    "opt.OneCycle": call(0.1, 10, 0.3, 25.0, 1e4),
    "opt.Piecewise": call([2, 4], [0.1, 0.2, 0.3]),
    "opt.Polynomial": call(0.1, 5, 0.0, 2.0),
    "opt.StepDecay": call(0.1, 2, 0.5),
    "opt.WarmUp": call(0.1, 2, 0.0),
    "initializer.constant": call(0.5),
    "initializer.glorot_normal": call(gain=1.0, layout="linear"),
    "initializer.glorot_uniform": call(gain=1.0),
    "initializer.he_normal": call(negative_slope=0.0, mode="fan_in"),
    "initializer.he_uniform": call(negative_slope=0.0, mode="fan_out"),
    "initializer.normal": call(0.0, 0.1),
    "initializer.orthogonal": call(1.0),
    "initializer.truncated_normal": call(0.0, 0.1, a=-2.0, b=2.0),
    "initializer.uniform": call(-0.1, 0.1),
    "callbacks.EarlyStopping": call("loss", patience=2, mode="min", min_delta=0.0),
    "callbacks.ReduceOnPlateau": call(
        "loss", factor=0.1, patience=2, mode="max", threshold=0.1, cooldown=1, floor=0.0
    ),
    "callbacks.Checkpoint": call("file", every=1, keep=2, best="loss", mode="min", resume=False),
    "callbacks.JsonlLog": call("file", every=1),
    "callbacks.ProgressBar": call(interval=0.5),
    "metric.TopKAccuracy": call(2),
    "metric.top_k_accuracy": call("x", "k", 2),
    "metric.accuracy": call("x", "k"),
    "data.loader.ArrayLoader": call("x", "k", batch_size=1, shuffle=True, seed=1, drop_last=False),
    "data.loader.train_test_split": call("x", "k", test=1, seed=1),
    "tensor": call([1.0, 2.0], dtype="float64", requires_grad=True),
    "Parameter": call((2, 3), "zeros", dtype="float32"),
    "State": call((2, 3), 1.0, dtype="int64"),
    "Placeholder": call((2, 3), "float32"),
    "Spec": call((2, 3), "float32"),
    "manual_seed": call(1),
    "Counter": call(1),
}
