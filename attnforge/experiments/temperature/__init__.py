"""Error against sharpness, dtype by dtype: the optimum, underflow of weights, overflow of scores, lost argmax."""

from attnforge.experiments.temperature.experiment import Temperature, TemperatureSettings

__all__ = ["Temperature", "TemperatureSettings"]
