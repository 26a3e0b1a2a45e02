"""Functions of a whole prompt, by means over its tokens: one network for every number of tokens."""

from __future__ import annotations

import attnforge as af
from attnforge.zoo.citations import OURS
from attnforge.zoo.entry import UNHURRIED, Entry

KIND = "functional"
X, Y = {"x": (-1, 1)}, {"y": (-1, 1)}
QUERY = {"q": (-1, 1)}
PAIRS = "tokens (x, y) in [-1, 1]"
MEAN = "one head whose query is zero weighs all tokens alike: the mean, written at the first token"

VAR_X, VAR_Y = (f"tokens.mean({v}^2) - tokens.mean({v})^2" for v in "xy")
COVARIANCE = "tokens.mean(x*y) - tokens.mean(x)*tokens.mean(y)"
CLOSENESS = "exp(-2*(x - q)^2)"

ENTRIES = (
    Entry(
        "third_moment",
        KIND,
        "the mean of x^3 over the tokens",
        "up to a million tokens x in [-1, 1]; called as net(prompt)",
        f"a row cubes at every token; {MEAN}",
        OURS,
        lambda: af.compile("tokens.mean(x^3)", X, 1e-8, effort=UNHURRIED),
    ),
    Entry(
        "variance",
        KIND,
        "the variance of x over the tokens",
        "up to a million tokens x in [-1, 1]; called as net(prompt)",
        f"a row squares at every token; {MEAN}, of x and of x^2 at once; a row squares the mean there",
        OURS,
        lambda: af.compile(VAR_X, X, 1e-8, effort=UNHURRIED),
    ),
    Entry(
        "correlation",
        KIND,
        "Pearson's correlation of x and y over the tokens",
        f"up to a million {PAIRS}, both variances at least 0.3; called as net(prompt)",
        f"squares and products at every token; {MEAN}; there they are squared and multiplied, and roots divide by way "
        "of logarithms",
        "Pearson 1896, Philosophical Transactions of the Royal Society A 187",
        lambda: af.compile(
            f"({COVARIANCE})/sqrt(({VAR_X})*({VAR_Y}))",
            X | Y,
            1e-6,
            given={VAR_X: (0.3, None), VAR_Y: (0.3, None)},
            effort=UNHURRIED,
        ),
    ),
    Entry(
        "line_through_the_prompt",
        KIND,
        "the least-squares line of the tokens, at q",
        f"up to a million {PAIRS}, the variance of x at least 0.5, and q in [-1, 1]; called as net(prompt, q)",
        f"squares and products at every token; {MEAN}; covariance over variance, times the distance of q from the mean",
        "Gauss 1809, Theoria motus; in closed form, not by descent",
        lambda: af.compile(
            f"tokens.mean(y) + ({COVARIANCE})/({VAR_X})*(q - tokens.mean(x))",
            X | Y | QUERY,
            1e-6,
            given={VAR_X: (0.5, None)},
            effort=UNHURRIED,
        ),
    ),
    Entry(
        "linear_attention",
        KIND,
        "q times the mean of k v: attention without a softmax, by softmax attention",
        "up to a million tokens (k, v) in [-1, 1], and q in [-1, 1]; called as net(prompt, q)",
        f"a multiplier at every token; {MEAN}; a multiplier with q",
        "Katharopoulos et al. 2020, Transformers are RNNs, arXiv:2006.16236",
        lambda: af.compile("q*tokens.mean(k*v)", dict.fromkeys("kvq", (-1, 1)), 1e-8, effort=UNHURRIED),
    ),
    Entry(
        "kernel_average",
        KIND,
        "the mean of y exp(-2 (x - q)^2) over the mean of exp(-2 (x - q)^2)",
        f"up to a million {PAIRS}, q in [-1, 1], the denominator at least 0.2; called as net(prompt, q)",
        f"a row makes the kernel at every token, which knows q; {MEAN}, of two things; then a quotient",
        "Nadaraya 1964; Watson 1964",
        lambda: af.compile(
            f"tokens.mean(y*{CLOSENESS})/tokens.mean({CLOSENESS})",
            X | Y | QUERY,
            1e-6,
            query=["q"],
            given={f"tokens.mean({CLOSENESS})": (0.2, None)},
            effort=UNHURRIED,
        ),
    ),
)
