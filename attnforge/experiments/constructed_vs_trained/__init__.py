r"""The experiment of Hu et al. 2025, trained as there and constructed instead; then trained on from the construction.

The protocol, from the authors' public script (``truncated.py`` of MAGICS-LAB/UAP_Attention), written anew: n = 50
tokens of d = 10 features, uniform on [-5, 5]; each token has a linear form of its own, w and t standard normal; the
target is clamp(w . x + t, -25, 25). Of 1,000 sequences 800 train and 200 test. The model is
:class:`attnforge.experiments.training.PaddedSelfAttention` with p = 60 and 32 features, H = 1, 2, 4, 8, 16; Adam with
step size 0.001, batches of 32, 50 epochs, float32. The loss averages 32 output features of which 31 have target 0, so
that the mean square error of the feature that means something is up to 32 times what is printed.

The construction has p keys in each of its H heads. It is told w and t, which training has to find; so it is also built
from w and t estimated from the training data by least squares. The data are exact where the clamp does not act, which
makes that easy: the comparison says how well softmax attention finds what a linear fit finds.
"""

from attnforge.experiments.constructed_vs_trained.experiment import ConstructedVsTrained, ConstructedVsTrainedSettings

__all__ = ["ConstructedVsTrained", "ConstructedVsTrainedSettings"]
