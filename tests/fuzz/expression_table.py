"""The calls that expressions.py draws, as data: what a call looks like, of which functions, and how exact it must be.

In a call, NAME stands for each of the names. What stands in braces is drawn by the method of that name of
`expressions.Drawer`, from left to right; `{x}` and the other tensors become the one that `{dim}` and the like refer to.
"""

from typing import NamedTuple

EXACT = 0.0


class Call(NamedTuple):
    """Call of one or more functions, with its tolerance.

    Attributes:
        text: The call, with words in braces for random operands.
        names: Names of the functions, separated by spaces.
        ulps: Allowed error of a float result against the float64 result, in units in the last place, in addition to
            twice PyTorch's own error. 0 means bit-identical to PyTorch's result.
        of: Number whose last place counts. "result": each element. "terms": the result of the same call with absolute
            values, for sums that cancel. "whole": the largest number among operands and result.
    """

    text: str
    names: str
    ulps: float = EXACT
    of: str = "result"


CALLS = (
    # --- one element at a time
    Call("nt.NAME({x})", "abs absolute neg negative square sign sgn floor ceil trunc round relu clone isnan isinf"),
    Call("nt.NAME({x})", "isfinite logical_not bitwise_not reciprocal relu6 hardtanh frac nan_to_num"),
    Call("nt.NAME({x})", "exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh", 4),
    Call("nt.NAME({x})", "acosh atanh arcsin arccos arctan arcsinh arccosh arctanh erf sigmoid sqrt rsqrt", 4),
    Call("nt.NAME({x})", "selu elu leaky_relu silu mish hardswish hardsigmoid logsigmoid softplus gelu", 8, "whole"),
    Call("nt.softsign({f})", "softsign", 8, "whole"),
    Call("nt.gelu({f}, approximate='tanh')", "gelu", 8, "whole"),
    Call("nt.NAME({f}, {number})", "elu leaky_relu softplus", 8, "whole"),
    Call("nt.hardtanh({f}, {low}, {high})", "hardtanh"),
    Call("nt.prelu({f}, nt.tensor(0.25))", "prelu", 8, "whole"),
    Call("nt.glu({f}, {dim})", "glu", 8, "whole"),
    Call("nt.NAME({x}, {y})", "add sub subtract mul multiply maximum minimum fmax fmin div divide true_divide"),
    Call("nt.NAME({x}, {y})", "eq ne not_equal lt less le less_equal gt greater ge greater_equal isclose"),
    Call("nt.NAME({x}, {y})", "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor"),
    # PyTorch ends the process where the smallest integer is divided by -1.
    Call("nt.NAME({f}, {same})", "fmod remainder floor_divide"),
    Call("nt.NAME({i}, {same}.abs())", "fmod remainder floor_divide"),
    Call("nt.NAME({x}, {divisor})", "fmod remainder floor_divide"),
    Call("({f} NAME {same})", "// %"),
    Call("({x} NAME {divisor})", "// %"),
    Call("({x} NAME {y})", "+ - * / & | ^ == != < <= > >="),
    Call("({number} NAME {x})", "+ - * == < >="),
    Call("({number} NAME {f})", "// %"),
    Call("({number} / {g})", "/", 1),
    Call("({whole} NAME {i})", "& | ^"),
    Call("nt.NAME({x}, {t}, alpha={whole})", "add sub rsub", 2, "terms"),
    Call("nt.NAME({i}, {shift})", "bitwise_left_shift bitwise_right_shift"),
    Call("nt.NAME({f}, {y}, rounding_mode={rounding})", "div divide"),
    Call("nt.NAME({i}, {same}.abs(), rounding_mode={rounding})", "div divide"),
    Call("nt.NAME({x}, {t})", "atan2 arctan2 hypot logaddexp", 8, "whole"),
    Call("nt.pow({x}, {y})", "pow", 4),
    Call("({x} ** {exponent})", "pow", 4),
    Call("({number} ** {x})", "pow", 4),
    Call("nt.NAME({x}, {low}, {high})", "clamp clip"),
    Call("nt.NAME({x}, {number})", "clamp_min clamp_max"),
    Call("nt.NAME({x}, {t}, {t})", "clamp clip"),
    Call("nt.where({m}, {y}, {t})", "where"),
    Call("{x}.where({mask}, {y})", "where"),
    Call("nt.lerp({f}, {same}, {p})", "lerp", 4, "whole"),
    Call("nt.lerp({f}, {same}, {same})", "lerp", 4, "whole"),
    Call("nt.NAME({x}, {same}, {same}, value={positive})", "addcmul addcdiv", 4, "terms"),
    Call("nt.nan_to_num({x}, {p}, {p})", "nan_to_num"),
    Call("nt.NAME({x}, {same}, equal_nan={keep})", "isclose allclose"),
    Call("nt.equal({x}, {same})", "equal"),
    Call("nt.dropout({f}, {p}, False)", "dropout"),
    # --- dtypes
    Call("{x}.to({dtype})", "to"),
    Call("{x}.NAME()", "float double half bfloat16 int long short char byte bool"),
    Call("{x}.NAME({t})", "type_as to"),
    Call("{x}.NAME({number})", "new_tensor"),
    # --- reductions
    Call("nt.NAME({x}, {dims}, {keep})", "sum nansum mean nanmean", 4, "terms"),
    Call("nt.NAME({x})", "sum nansum mean nanmean trace", 4, "terms"),
    Call("nt.NAME({g}, {dims}, {keep}, dtype={wide})", "sum mean", 4, "terms"),
    Call("nt.NAME({g}, {dim})", "prod cumprod", 8),
    Call("nt.NAME({i}, {dim})", "prod cumprod"),
    Call("nt.NAME({x}, {dims}, {keep})", "amax amin any all"),
    Call("nt.NAME({x}, {dims})", "count_nonzero"),
    Call("nt.NAME({x})", "amax amin any all argmax argmin max min median aminmax count_nonzero"),
    Call("nt.NAME({x}, {dim}, {keep})", "argmax argmin max min any all"),
    Call("nt.median({x}.contiguous(), {dim}, {keep})[0]", "median"),
    Call("nt.aminmax({x}, dim={dim}, keepdim={keep})", "aminmax"),
    Call("nt.NAME({g}, {dims}, correction={correction})", "var std var_mean std_mean", 16, "whole"),
    Call("nt.NAME({f}, {dim}, {keep})", "logsumexp", 8, "whole"),
    Call("nt.norm({g}, {order}, {dim}, {keep})", "norm", 16, "whole"),
    Call("nt.NAME({x}, {dim})", "cumsum", 8, "terms"),
    Call("nt.NAME({f}, {dim})", "softmax log_softmax softmin", 8, "whole"),
    Call("nt.softmax({x}, {dim}, dtype=nt.float32)", "softmax", 8, "whole"),
    Call("nt.quantile({f}, {fraction}, {dim}, {keep})", "quantile", 4, "whole"),
    Call("nt.diff({x}, {some}, {dim})", "diff", 4, "whole"),
    # --- order
    Call("nt.sort({x}, stable=True, dim={dim}, descending={keep})", "sort"),
    Call("nt.argsort({x}, dim={dim}, descending={keep}, stable=True)", "argsort"),
    Call("nt.topk({x}, {count}, {dim}, {keep})[0]", "topk"),
    Call("nt.unique({x})", "unique"),
    Call("nt.unique({x}, return_inverse=True, return_counts=True)", "unique"),
    Call("nt.searchsorted(nt.sort(nt.nan_to_num({v}))[0], {same}, right={keep})", "searchsorted"),
    Call("nt.bucketize({x}, nt.tensor([-1.0, 0.0, 0.5, 3.0]), right={keep})", "bucketize"),
    Call("nt.isin({x}, {same})", "isin"),
    # --- shape
    Call("{a_view}", "reshape view select narrow permute transpose movedim swapaxes expand squeeze unsqueeze flatten"),
    Call("{a_view}.contiguous()", "unflatten ravel diagonal t broadcast_to"),
    Call("nt.NAME({x}, {dim}, {dim})", "transpose swapaxes swapdims movedim moveaxis"),
    Call("nt.NAME({x}, {count}, {dim})", "chunk split"),
    Call("nt.unbind({x}, {dim})", "unbind"),
    Call("nt.NAME([{x}, {t}, {same}], {dim})", "cat concat concatenate stack"),
    Call("nt.NAME([{x}, {same}, {x}])", "cat hstack vstack"),
    Call("nt.flip({x}, [{dim}])", "flip"),
    Call("nt.NAME({x})", "fliplr flipud t"),
    Call("nt.roll({x}, {whole}, {dim})", "roll"),
    Call("nt.roll({x}, {whole})", "roll"),
    Call("nt.tile({x}, ({count}, {count}))", "tile"),
    Call("{x}.repeat({count}, {count}, {count})", "repeat"),
    Call("nt.repeat_interleave({v}, {count}, {dim})", "repeat_interleave"),
    Call("nt.broadcast_tensors({x}, {t})", "broadcast_tensors"),
    Call("nt.meshgrid({v}, {v}, indexing={indexing})", "meshgrid"),
    Call("nt.cartesian_prod({v}, {same})", "cartesian_prod"),
    Call("nt.NAME({x}, {whole})", "tril triu diag diagonal"),
    Call("nt.pad({x}, {widths}, value={count})", "pad"),
    Call("nt.pad({f}, {widths}, mode={padding})", "pad"),
    # PyTorch returns uninitialized memory if one width of circular padding is negative.
    Call("nt.pad({f}, [{count}, {count}], mode='circular')", "pad"),
    Call("nt.NAME({image}, 2)", "pixel_shuffle pixel_unshuffle"),
    Call("nt.one_hot({places})", "one_hot"),
    Call("nt.one_hot({places}, 5)", "one_hot"),
    Call("nt.NAME({x})", "zeros_like ones_like numel is_tensor"),
    Call("nt.full_like({x}, {number})", "full_like"),
    Call("nt.full([2, 3], {number}, dtype={dtype})", "full new_full"),
    Call("nt.NAME(2, {count}, dtype={dtype})", "zeros ones eye"),
    Call("{x}.NAME(2, {count})", "new_zeros new_ones"),
    Call("nt.arange({low}, {high}, {p})", "arange", 4, "whole"),
    Call("nt.arange({low}, {high}, dtype={dtype})", "arange"),
    Call("nt.linspace({finite}, {finite}, {count})", "linspace", 4, "whole"),
    Call("nt.NAME(3, 4, {whole})", "tril_indices triu_indices"),
    Call("{x}.shape", "shape"),
    # --- elements by position
    Call("{x}[{item}]", "__getitem__"),
    Call("{x}[{mask}]", "mask"),
    Call("nt.masked_select({x}, {mask})", "masked_select"),
    Call("nt.masked_fill({x}, {mask}, {number})", "masked_fill"),
    Call("nt.masked_scatter({x}, {mask}, {same})", "masked_scatter"),
    Call("nt.NAME({x})", "nonzero argwhere"),
    Call("nt.nonzero({x}, as_tuple=True)", "nonzero"),
    Call("nt.index_select({x}, {along}, {points})", "index_select"),
    Call("nt.index_fill({x}, {along}, {points}, {number})", "index_fill"),
    Call("nt.NAME({x}, {along}, {points}, {part})", "index_copy index_add"),
    Call("nt.gather({x}, {along}, {rows})", "gather"),
    Call("nt.take_along_dim({x}, {rows_and_dim})", "take_along_dim"),
    Call("nt.NAME({x}, {along}, {rows}, {same})", "scatter scatter_add"),
    Call("nt.scatter({x}, {along}, {rows}, {whole})", "scatter"),
    Call("nt.index_put({x}, ({first_points},), {number_of_it})", "index_put"),
    Call("nt.bincount({places}.flatten())", "bincount"),
    Call("nt.embedding({places}, {table})", "embedding"),
    # --- products
    Call("nt.matmul({factors})", "matmul", 4, "terms"),
    Call("nt.mm({matrices})", "mm", 4, "terms"),
    Call("nt.bmm({batches})", "bmm", 4, "terms"),
    Call("nt.mv({matrix_vector})", "mv", 4, "terms"),
    Call("nt.NAME({two_vectors})", "dot vdot inner", 4, "terms"),
    Call("nt.outer({v}, {v})", "outer"),
    Call("nt.kron({x}, {x})", "kron"),
    Call("nt.addmm({row}, {matrices}, beta={positive}, alpha={positive})", "addmm", 8, "terms"),
    Call("nt.addmv({row}, {full_matrix_vector}, beta={positive})", "addmv", 8, "terms"),
    Call("nt.baddbmm({row}, {batches}, alpha={positive})", "baddbmm", 8, "terms"),
    Call("nt.linear({linear})", "linear", 4, "terms"),
    Call("nt.einsum('ij,jk->ik', {matrices})", "einsum", 4, "terms"),
    Call("nt.einsum('bij,bjk->bik', {batches})", "einsum", 4, "terms"),
    Call("nt.einsum('bij,jk', {matrix_batch})", "einsum", 4, "terms"),
    Call("nt.einsum('NAME', {matrix})", "ij->ji ij->i ij->", 4, "terms"),
    Call("nt.einsum('NAME', {square})", "ii->i ii", 4, "terms"),
    Call("nt.einsum('NAME', {vectors})", "i,j->ij i,j->ji i,j", 4, "terms"),
    Call("nt.cdist({points_apart}, p={order})", "cdist", 32, "whole"),
    Call("nt.conv1d({conv1d}{conv1d_more})", "conv1d", 8, "terms"),
    Call("nt.conv2d({conv2d}{conv2d_more})", "conv2d", 8, "terms"),
    Call("nt.scaled_dot_product_attention({attention}, is_causal={keep})", "scaled_dot_product_attention", 16, "whole"),
    # --- windows, norms, losses
    Call("nt.NAME({image}, {pool})", "max_pool2d"),
    Call("nt.NAME({image}, {pool})", "avg_pool2d", 4, "terms"),
    Call("nt.NAME({signal}, {pool})", "max_pool1d"),
    Call("nt.NAME({signal}, {pool})", "avg_pool1d", 4, "terms"),
    Call("nt.adaptive_avg_pool1d({signal}, {count})", "adaptive_avg_pool1d", 4, "terms"),
    Call("nt.adaptive_avg_pool2d({image}, {count})", "adaptive_avg_pool2d", 4, "terms"),
    Call("nt.unfold({image}, 2)", "unfold"),
    Call("nt.interpolate({image}, size=({count}, 3), mode='nearest')", "interpolate"),
    Call("nt.interpolate({image}, scale_factor=2, mode='bilinear', align_corners={keep})", "interpolate", 8, "whole"),
    Call("nt.NAME({g}, [{last}])", "layer_norm rms_norm", 512, "whole"),
    Call("nt.group_norm({image}, 2)", "group_norm", 512, "whole"),
    Call("nt.batch_norm({image}, {channels}, {channels}.square())", "batch_norm", 512, "whole"),
    Call("nt.normalize({f}, 2.0, {dim})", "normalize", 16, "whole"),
    Call("nt.cosine_similarity({f}, {same}, {dim})", "cosine_similarity", 16, "whole"),
    Call("nt.NAME({f}, {same}, reduction={reduction})", "mse_loss l1_loss smooth_l1_loss huber_loss", 8, "whole"),
    Call("nt.kl_div({f}, {same}, reduction={reduction}, log_target=True)", "kl_div", 16, "whole"),
    Call("nt.NAME({g}, {also}{share}, reduction={reduction})", "binary_cross_entropy_with_logits", 16, "whole"),
    Call("nt.NAME({g}{share}, {also}{share}, reduction={reduction})", "binary_cross_entropy", 16, "whole"),
    Call("nt.NAME({logits}, {labels}, reduction={reduction})", "cross_entropy nll_loss", 16, "whole"),
    # --- methods and attributes
    Call("{x}.NAME", "T shape ndim is_floating_point() dim() size() nelement() element_size() itemsize nbytes"),
    Call("{x}.NAME({same})", "view_as reshape_as expand_as"),
    Call("{x}.tolist()", "tolist"),
    Call("{x}.item()", "item"),
)

READS = (
    *("unique", "nonzero", "argwhere", "masked_select", "masked_scatter", "bincount", "tolist", "item", "equal"),
    *("allclose", "one_hot", "isin", "mask"),
)
"""Functions that read values, which a captured function cannot do."""

WORDS = {
    "number": "0 1 2 -1 3 0.5 -2.5 1.0 True inf nan -0.0 1e-3 100 255 -129",
    "p": "0.5 0.0 1.0 2.0 -1.5 3 0.1",
    "order": "1.0 2.0 inf",
    "exponent": "2 3 0.5 -1 0 1 -0.5 -2 4 2.0 True",
    "whole": "0 1 2 -1 -2 3",
    "low": "-1 0 -2.5 0.5 1 -inf 2",
    "high": "1 2 2.5 6 0.5 inf -1",
    "finite": "-1 0 2.5 0.5 1 10",
    "some": "1 2 3",
    "correction": "0 1 2",
    "wide": "nt.float32 nt.float64 nt.int64",
    "divisor": "1 2 3 -2 -3 7 2.5",
    "positive": "1 2 3",
    "factor": "1 2 -1",
    "count": "1 2 3 1 2 0",
    "shift": "0 1 2 3 4 5 6",
    "fraction": "0.0 0.25 0.5 1.0",
    "keep": "True False",
    "rounding": "None 'trunc' 'floor'",
    "reduction": "'mean' 'sum' 'none'",
    "indexing": "'ij' 'xy'",
    "places": "nt.tensor([[0,4,2],[1,1,3]]) nt.tensor([[2,0],[0,2],[3,1]])",
    "share": ".abs().clamp(0,1)",
    "labels": "nt.tensor([0,3,4,1]) nt.tensor([2,2,0,1])",
    "padding": "'reflect' 'replicate'",
    "conv1d_more": ",stride=1 ,stride=2 ,padding=1 ,dilation=2 ,padding='same'",
    "conv2d_more": ",stride=1 ,stride=2 ,padding=1 ,stride=(1,2),padding=(1,0) ,dilation=2",
    "pool": "2 3,1 2,1 3,2,1 2,stride=1,padding=1 3,2,ceil_mode=True",
}
"""Arguments that depend on nothing, separated by spaces."""

OPERANDS = {
    "factors": ("float bfloat int", "mk,kn bmk,kn bmk,bkn k,kn mk,k k,k b1mk,2kn m3,4n"),
    "matrices": ("float bfloat int", "mk,kn"),
    "batches": ("float bfloat int", "bmk,bkn"),
    "matrix_batch": ("float bfloat int", "bmk,kn"),
    "matrix": ("float bfloat int", "mn"),
    "square": ("float bfloat int", "nn"),
    "two_vectors": ("float bfloat int", "k,k"),
    "vectors": ("float bfloat int", "m,n"),
    # PyTorch forgets to broadcast the first operand of addmv where there is nothing to add.
    "full_matrix_vector": ("float bfloat int", "34,4 53,3"),
    "matrix_vector": ("float bfloat int", "mk,k"),
    "row": ("float", "1"),
    "logits": ("float", "45"),
    "image": ("float bfloat", "1446 1466 2446"),
    "signal": ("float bfloat", "235 238"),
    "table": ("float bfloat int bool", "53"),
    "linear": ("float bfloat", "mk,nk,n bmk,nk k,nk,n"),
    "points_apart": ("float", "34,54", True),
    "conv1d": ("float bfloat", "239,433,4 39,232,2"),
    "conv2d": ("float bfloat", "1367,4333,4 2255,2211,2"),
    "attention": ("float bfloat", "2h54,2h54,2h54 2h34,2h34,2h34", True),
}
"""Operands that belong together: kinds of dtypes, and shapes; an extent is a digit, or a letter for a drawn one."""
