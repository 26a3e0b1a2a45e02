"""Regressions that frozen attention fits to its prompt: steps of descent as blocks, and averages by one head."""

from __future__ import annotations

import attnforge as af
from attnforge.zoo.citations import HU, OSWALD
from attnforge.zoo.entry import Entry

KIND, KERNEL = "in-context", "kernel"
STEP = (
    "a block a step: state tokens with the query beta (w, -1) meet examples and their mirror images; two barely sharp "
)
SUM = STEP + "heads make the gradient, and the state adds it"
DATA = "X (n, {d}) and y (n,), numbers in [-1, 1]; called as net(X, y)"

ENTRIES = (
    Entry(
        "least_squares",
        KIND,
        "40 steps of gradient descent on (1/n) sum (x_i . w - y_i)^2/2: the weights w",
        DATA.format(d=3),
        SUM,
        f"{OSWALD} (linear attention); {HU} (softmax)",
        lambda: af.in_context.LeastSquares(steps=40, learning_rate=0.3).build(features=3, data_bound=1.0),
    ),
    Entry(
        "ridge",
        KIND,
        "30 steps on least squares plus |w|^2/20",
        DATA.format(d=3),
        f"{SUM}; one more head, whose only key is the state itself, shrinks it",
        "Hoerl and Kennard 1970, Technometrics 12; Akyürek et al. 2023, arXiv:2211.15661",
        lambda: af.in_context.Ridge(steps=30, alpha=0.1).build(features=3, data_bound=1.0),
    ),
    Entry(
        "lasso",
        KIND,
        "30 proximal steps on least squares plus |w|_1/10",
        DATA.format(d=3),
        f"{SUM}; then a gate of three keys a weight thresholds it softly",
        f"Daubechies et al. 2004, Communications on Pure and Applied Mathematics 57; {HU}",
        lambda: af.in_context.Lasso(steps=30, alpha=0.1).build(features=3, data_bound=1.0),
    ),
    Entry(
        "elastic_net",
        KIND,
        "30 proximal steps on least squares plus |w|_1/20 + |w|^2/40",
        DATA.format(d=3),
        f"{SUM}; a head that shrinks, then gates that threshold",
        "Zou and Hastie 2005, Journal of the Royal Statistical Society B 67",
        lambda: af.in_context.ElasticNet(steps=30, alpha=0.1).build(features=3, data_bound=1.0),
    ),
    Entry(
        "huber",
        KIND,
        "30 steps on Huber's loss: residuals cut at 1/2",
        DATA.format(d=3),
        "examples read their residual from the state tokens by a barely sharp head, a gate cuts it, the state sums",
        "Huber 1964, Annals of Mathematical Statistics 35",
        lambda: af.in_context.Huber(steps=30, delta=0.5).build(features=3, data_bound=1.0),
    ),
    Entry(
        "huber_by_anchors",
        KIND,
        "5 steps on Huber's loss with one feature, by the paper's route",
        DATA.format(d=1),
        "as `huber`, but the residual is looked up on a row of 32 anchors, as of `ramp`, which stand in the prompt",
        HU,
        lambda: af.in_context.Huber(steps=5, learning_rate=0.1, delta=0.5, route="interpolation", anchors=32).build(
            features=1, data_bound=1.0
        ),
    ),
    Entry(
        "logistic_regression",
        KIND,
        "30 steps on the log loss plus |w|^2/20, with an intercept",
        "X (n, 2) in [-1, 1] and labels y (n,) 0 or 1; called as net(X, y)",
        "examples read the logistic function of w . x, the softmax of two scores, exactly; then the state sums",
        "Cox 1958, Journal of the Royal Statistical Society B 20",
        lambda: af.in_context.Logistic(steps=30, alpha=0.1, fit_intercept=True).build(features=2, data_bound=1.0),
    ),
    Entry(
        "softmax_regression",
        KIND,
        "30 steps on the cross-entropy of three classes plus |w|^2/20: weights (2, 3)",
        "X (n, 2) in [-1, 1] and classes y (n,) 0, 1 or 2; called as net(X, y)",
        "examples attend to the state tokens of the classes: that softmax is the model's own; then each state sums",
        "Bridle 1990, Probabilistic Interpretation of Feedforward Classification Network Outputs",
        lambda: af.in_context.SoftmaxRegression(steps=30, classes=3, alpha=0.1).build(features=2, data_bound=1.0),
    ),
    Entry(
        "posterior",
        KIND,
        "ridge regression of y and of X itself, from which mean and covariance of a Bayesian posterior follow",
        "X (8, 2) and values (y, X) (8, 3), numbers in [-1, 1]; called as net(X, values)",
        "three state tokens, one an output, as of `ridge`; the covariance is (I - W)/prior precision",
        "Bishop 2006, Pattern Recognition and Machine Learning, section 3.3",
        lambda: (
            af.in_context.BayesianLinear(noise=0.5, steps=60).build(features=2, examples=8, data_bound=1.0).regression
        ),
    ),
    Entry(
        "nadaraya_watson",
        KERNEL,
        "labels averaged with weights exp(-2 |x - x_i|^2)",
        "X (64, 2), y (64,) and X_query (q, 2), numbers in [-1, 1]; called as net(X, y, X_query)",
        "one head: examples hold |x_i|^2, so that scores are squared distances, and the softmax is the kernel, exactly",
        "Nadaraya 1964; Watson 1964; Tsai et al. 2019, Transformer Dissection, arXiv:1908.11775",
        lambda: af.in_context.KernelRegression(bandwidth=0.5).build(features=2, examples=64, data_bound=1.0),
    ),
    Entry(
        "softmax_kernel",
        KERNEL,
        "labels averaged with weights exp(x . x_i)",
        "X (64, 4), y (64,) and X_query (q, 4), numbers in [-1, 1]; called as net(X, y, X_query)",
        "one head on raw examples: plain attention is kernel regression with this kernel",
        "Tsai et al. 2019, Transformer Dissection, arXiv:1908.11775",
        lambda: af.in_context.KernelRegression(kernel="softmax").build(features=4, examples=64, data_bound=1.0),
    ),
)
