"""A program as a network that runs: lists of tokens in, lists of values out, with its certificate."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from attnforge.arrays import entries
from attnforge.certification.program_certificate import ProgramCertificate, certify_program
from attnforge.display import Card, Displayed, shares
from attnforge.errors import CertificateError, DomainError, FileFormatError
from attnforge.labels import Labels as NetworkLabels
from attnforge.labels import named_graph
from attnforge.model_file import StoredModel, save
from attnforge.network import Attention, CausalGraph, Network, count_keys, count_parameters
from attnforge.outward import DType, dtype_name
from attnforge.programs.labels import program_labels
from attnforge.programs.trace import Trace, trace_of
from attnforge.targets.programs.alphabet import identity
from attnforge.targets.programs.language import Indices, Labels, Numbers, Positions, Tokens
from attnforge.targets.programs.registers import Layout, Register
from attnforge.targets.programs.stored import Program

if TYPE_CHECKING:
    from attnforge.runtime import AttentionNetwork

Array = npt.NDArray[np.float64]
HELD = 2**24  # scores held at once where many sequences run


@dataclass(frozen=True, eq=False, repr=False)
class ProgramNetwork(Displayed):
    """Softmax attention and linear maps that compute a program, for sequences of 1 to ``max_length`` tokens.

    Called with a sequence of tokens it returns a list of as many values: labels, integers, or floats where the program
    computes fractions. :meth:`many` takes several. It runs in ``dtype``; ``certificate`` is the theorem that all values
    are right. A longer sequence, an empty one or an unknown token raises DomainError before anything runs.
    """

    layout: Layout
    network: Network
    dtype: str
    certificate: ProgramCertificate

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __call__(self, sequence: Sequence[Any]) -> list[Any]:
        """The program's values, one a token."""
        return self.many([sequence])[0]

    def many(self, sequences: Iterable[Sequence[Any]]) -> list[list[Any]]:
        """The values of several sequences; those of equal length run together."""
        if isinstance(sequences, str | bytes) or not isinstance(sequences, Iterable):
            got = f"{sequences!r:.40}"
            raise DomainError("`many` takes a list of sequences, each a list of tokens", got, "Pass [sequence, ...]")
        given = [self._checked(sequence) for sequence in sequences]
        by_length: dict[int, list[int]] = {}
        for i, sequence in enumerate(given):
            by_length.setdefault(len(sequence), []).append(i)
        found: list[list[Any]] = [[] for _ in given]
        for size, members in by_length.items():
            step = max(1, HELD // (size * max(size, self.layout.features)))
            for at in range(0, len(members), step):
                part = members[at : at + step]
                for i, values in zip(part, self._run([given[i] for i in part]), strict=True):
                    found[i] = values
        return found

    @property
    def program(self) -> Labels | Numbers:
        """The program."""
        return self.layout.typed.program

    @property
    def vocabulary(self) -> tuple[Any, ...]:
        """The tokens."""
        return self.layout.typed.vocabulary

    @property
    def max_length(self) -> int:
        """The largest length for which it is proved: sequences up to it are taken."""
        return self.certificate.max_length

    @property
    def layers(self) -> int:
        """Number of layers of attention."""
        return sum(isinstance(layer, Attention) for layer in self.network.layers)

    @property
    def heads(self) -> int:
        """Number of heads in all layers."""
        return len(self.network.heads)

    @property
    def parameters(self) -> int:
        """Number of weights, zeros included."""
        return count_parameters(self.network)[0]

    @property
    def features(self) -> int:
        """The width of a token: features of all registers."""
        return self.layout.features

    def module(self, dtype: DType | None = None, device: Any = None) -> AttentionNetwork:
        """A ``torch.nn.Module`` called as ``module(net.encode(sequence))``: (n, features of the result).

        It checks nothing, and a dtype other than the compiled one is not covered by the certificate.
        """
        import torch

        from attnforge.runtime import AttentionNetwork

        module = AttentionNetwork(self.network, getattr(torch, dtype_name(dtype or self.dtype)), kernel="dense")
        return module if device is None else module.to(device)

    def encode(self, sequence: Sequence[Any]) -> Any:
        """What network and module take: a float64 tensor (n, inputs) of codes and positions."""
        import torch

        return torch.from_numpy(encoded(self.layout, [self._checked(sequence)])[0])

    def attention(self, sequence: Sequence[Any]) -> list[list[Array]]:
        """Softmax weights: a list over layers of a list over heads of (query, key) arrays, constant keys first."""
        import torch

        with torch.no_grad():
            layers = self._running.attention(self.encode(sequence))
        return [[weights.to(torch.float64).numpy() for weights in layer] for layer in layers]

    def trace(self, sequence: Sequence[Any]) -> Trace:
        """Every register beside its exact value, layer by layer, as the network runs."""
        import torch

        given = self._checked(sequence)
        if not self.certificate.registers:
            requirement = "Registers are traced where each has features of its own"
            raise CertificateError(requirement, "a stream in another basis", "Trace the plain one")
        with torch.no_grad():
            states = self._running.states(self.encode(given), 1)
        return trace_of(self.layout, given, [state.to(torch.float64).numpy() for state in states], self.certificate)

    def labels(self) -> NetworkLabels:
        """What every head, key and column is, in the names of the program's registers.

        A head's ``formula`` is the register that it writes, if its weights write no other column.
        """
        return program_labels(self.network, self.layout)

    def causal_graph(self) -> CausalGraph:
        """Who reads whom, read from the weights: registers of the input, heads, features of the result."""
        inputs = [each.name for each in self.layout.inputs for _ in range(each.size)]
        return named_graph(self.network, self.labels(), inputs)

    def with_network(self, network: Network) -> ProgramNetwork:
        """The same program with other weights, certified anew: CertificateError where they are not proved right."""
        found = certify_program(network, self.layout, self.dtype)
        return ProgramNetwork(self.layout, network, self.dtype, found)

    def certify(self) -> ProgramCertificate:
        """The certificate, proved once more from the weights."""
        return certify_program(self.network, self.layout, self.dtype)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write network, program (alphabets and tables, no code) and certificate to one safetensors file."""
        target = Program(self.layout.typed)
        save(StoredModel(self.network, target, self.certificate, "program", self.dtype, "asked for by name"), path)

    @classmethod
    def of_file(cls, stored: StoredModel) -> ProgramNetwork:
        """The network that a file holds, unless its certificate is about another one."""
        program, certificate = stored.target, stored.certificate
        if not isinstance(program, Program) or not isinstance(certificate, ProgramCertificate):
            raise FileFormatError("A stored program has a certificate", "none", "Build it anew")
        typed = program.typed
        for what in certificate.disagreements(stored.network, stored.dtype, typed.max_length, len(typed.vocabulary)):
            wanted = f"The certificate must be about the stored {what}"
            raise FileFormatError(wanted, f"another {what}", "Certify again")
        return cls(program.layout, stored.network, stored.dtype, certificate)

    def report(self) -> str:
        """What it is and what is proved, in a few lines."""
        lines = [
            *(f"{label:<15}{text}" for label, text in self._facts().items()),
            f"certificate    {self.certificate}",
            f"assumes        {'; '.join(self.certificate.assumptions)}",
        ]
        lines += ["registers"] if self.certificate.registers else []
        for each in self.certificate.registers:
            lines.append(f"  layer {each.layer}  {each.name:<28} within {each.error:.2g}")
        return "\n".join(lines)

    def _facts(self) -> dict[str, str]:
        size = (
            f"{self.layers} layers of attention, {self.heads} heads, 0 MLPs, {self.features} features, "
            f"{count_keys(self.network):,} constant keys, {self.parameters:,} parameters"
        )
        name = self.program.title or self.program.operation
        return {"program": f"{name}, {len(self.vocabulary)} tokens", "network": size}

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        return f"<ProgramNetwork {self._facts()['program']}: {self.certificate}>"

    def _card(self) -> Card:
        found = self.certificate
        facts = self._facts() | {"dtype": self.dtype}
        grids = [shares(found.parts, found.bound)]
        return Card("ProgramNetwork", found.status, found.statement(), facts, grids, found.details())

    def _run(self, sequences: list[list[Any]]) -> list[list[Any]]:
        import torch

        with torch.no_grad():
            out = self._running(torch.from_numpy(encoded(self.layout, sequences))).to(torch.float64).numpy()
        result = self.layout.result
        if result.labels is not None:
            labels = result.labels
            return [[labels[i] for i in row] for row in out.argmax(axis=-1)]
        if self.certificate.is_exact:
            return [[round(value) for value in row] for row in out[..., 0].tolist()]
        found: list[list[Any]] = out[..., 0].tolist()
        return found

    @property
    def _running(self) -> AttentionNetwork:
        """The module, unless torch would not compute what was certified."""
        import torch

        from attnforge.runtime.arithmetic import reduced_precision

        setting = reduced_precision(torch.device("cpu")) if self.dtype == "float32" else None
        if setting is not None:
            requirement = "A float32 network must run in float32, as its certificate assumes"
            remedy = 'Call torch.set_float32_matmul_precision("highest")'
            raise CertificateError(requirement, f"{setting}: products in fewer bits", remedy)
        return self._module

    @cached_property
    def _module(self) -> AttentionNetwork:
        return self.module()

    def _checked(self, sequence: Sequence[Any]) -> list[Any]:
        sequence = entries(sequence)
        if not isinstance(sequence, Sequence):
            raise DomainError("A program takes a list of tokens", f"{type(sequence).__name__}", "Pass a list")
        if not 1 <= len(sequence) <= self.max_length:
            remedy = "Shorten it, or compile with a larger max_length" if sequence else "Pass at least one token"
            raise DomainError(f"This program takes 1 to {self.max_length:,} tokens", f"{len(sequence):,}", remedy)
        return [self._token(token, i) for i, token in enumerate(sequence)]

    def _token(self, token: Any, at: int) -> Any:
        """The one of the vocabulary that it is, not one equal to it, as True is to 1; NumPy's are what they hold."""
        try:
            known = self._known.get(identity(token))
            return self._known[identity(_held(token))] if known is None else known
        except Exception as error:
            wanted, got = f"Tokens are of the vocabulary {list(self.vocabulary)!r:.80}", f"{token!r:.40} at {at}"
            raise DomainError(wanted, got, "Use its tokens") from error

    @cached_property
    def _known(self) -> dict[Any, Any]:
        return {identity(kind(token)): token for kind in (_held, lambda token: token) for token in self.vocabulary}


def _held(token: Any) -> Any:
    return token.item() if isinstance(token, np.generic) else token


def encoded(layout: Layout, sequences: list[list[Any]]) -> Array:
    """Sequences of one length as the network takes them, (batch, n, inputs)."""
    return np.concatenate([_column(register, sequences) for register in layout.inputs], axis=-1)


def _column(register: Register, sequences: list[list[Any]]) -> Array:
    node, n = register.key[0], len(sequences[0])
    if isinstance(node, Tokens):
        assert register.labels is not None
        place = register.labels.place
        return np.eye(register.size)[[[place(token) for token in sequence] for sequence in sequences]]
    if isinstance(node, Positions):
        return np.broadcast_to(np.eye(n, register.size), (len(sequences), n, register.size))
    at = np.arange(n, dtype=np.float64)[:, None]
    return np.broadcast_to(at if isinstance(node, Indices) else at * at, (len(sequences), n, 1))
