"""The model file: one safetensors file that holds weights, target, certificate and a digest."""

from attnforge.model_file.checking import check
from attnforge.model_file.reading import MAX_FILE, read
from attnforge.model_file.stored import FORMAT, StoredModel
from attnforge.model_file.writing import save, serialised, write

__all__ = ["FORMAT", "MAX_FILE", "StoredModel", "check", "read", "save", "serialised", "write"]
