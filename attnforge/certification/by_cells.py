"""Any stack of linear maps and softmax heads against formulas: a theorem of the kernel, by cells, as a proof."""

from __future__ import annotations

from attnforge.certification.statement import Proof, Statement
from attnforge.proving.cells import prove_by_cells
from attnforge.proving.statements import statement_of


def prove_stack(statement: Statement) -> Proof:
    """``enclosure``: a bound of |run - target| over all outputs."""
    wanted = statement_of(statement.run, statement.machine.name, statement.target, statement.domain)
    found = prove_by_cells(wanted, statement.effort, statement.progress)
    return Proof({"enclosure": found.theorem.bound}, found.theorem.status, limit=found.limit)
