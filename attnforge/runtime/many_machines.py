"""Modules whose shards of keys are with several processes: of torch.distributed, or of a Dask cluster.

Both take ``net.module(kernel="sharded", shards=S)``; ``af.certify(net, kernel="sharded")`` is about either.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial as bound
from functools import reduce
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnforge.errors import RefusalError, TargetError
from attnforge.parallel import connected
from attnforge.runtime.sharded import Partial, Shard, ShardedHead, merge, partial

M = TypeVar("M", bound=nn.Module)


def over_processes(module: M, group: Any = None) -> M:
    """The module with this rank's shard of every sharded head alone: called on all ranks, with the same inputs.

    ``group`` is one of ``torch.distributed``, by default all processes, as many as shards. All ranks return the same
    numbers, bit for bit. Partial results travel, 2 + v numbers a query and head; keys and values do not.
    """
    import torch.distributed as dist

    rank, size = dist.get_rank(group), dist.get_world_size(group)
    for head in _sharded(module):
        if head.count != size:
            requirement = "There must be as many shards as processes"
            raise RefusalError(requirement, f"{head.count} shards, {size} processes", f"Use shards={size}")
        head.keep_only(rank)
        head.ask = bound(_ask_group, head, rank, group)
    return module


def gathered(known: Partial, group: Any = None) -> Partial:
    """What all processes of the group know together; each hands in what it knows itself of the same queries."""
    import torch.distributed as dist

    own = torch.cat([known.largest[:, None], known.weight[:, None], known.weighted], dim=1)
    found = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, own, group=group)
    return reduce(merge, (Partial(each[:, 0], each[:, 1], each[:, 2:]) for each in found))


@contextmanager
def over_cluster(module: M, cluster: str) -> Iterator[M]:
    """The module with its shards at the workers of a Dask cluster, which answer with what they know of the queries.

    ``cluster`` is the address of its scheduler. Merges are made where the shards are. Shards stay with this process as
    well, and those of a worker that is lost are sent to another.
    """
    heads = _sharded(module)
    with connected(cluster) as client:
        for head in heads:
            head.ask = _Remote(client, [head.shard(i) for i in range(head.count)])
        try:
            yield module
        finally:
            for head in heads:
                head.ask = head._ask_all


class _Remote:
    """Shards at the workers of a cluster."""

    def __init__(self, client: Any, shards: list[Shard]) -> None:
        self.client, self.shards = client, shards
        self.held: list[Any] = [None] * len(shards)

    def __call__(self, queries: Tensor) -> Partial:
        for _ in range(len(self.shards) + 1):  # every worker may be lost but the last one
            try:
                return self._asked(queries.detach())
            except CancelledError:  # what was scattered is gone
                continue
        requirement, remedy = "Workers of a cluster must hold their shards", "Look into the logs of the workers"
        raise TargetError(requirement, "shards that are lost again and again", remedy)

    def _asked(self, queries: Tensor) -> Partial:
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        for i, shard in enumerate(self.shards):
            if self.held[i] is None or self.held[i].status != "finished":
                self.held[i] = self.client.scatter([shard], workers=[workers[i % len(workers)]], hash=False)[0]
        known = [self.client.submit(_known, queries, held, pure=False) for held in self.held]
        while len(known) > 1:  # neighbours, in rounds: the same tree whoever is first
            pairs = [known[i : i + 2] for i in range(0, len(known), 2)]
            known = [pair[0] if len(pair) == 1 else self.client.submit(merge, *pair, pure=False) for pair in pairs]
        return Partial(*known[0].result())


def _known(queries: Tensor, shard: Shard) -> Partial:
    with torch.no_grad():
        return partial(queries, *shard)


def _ask_group(head: ShardedHead, rank: int, group: Any, queries: Tensor) -> Partial:
    return gathered(partial(queries, *head.shard(rank)), group)


def _sharded(module: nn.Module) -> list[ShardedHead]:
    found = [part for part in module.modules() if isinstance(part, ShardedHead)]
    if not found:
        got, remedy = "a module without any", 'Use net.module(kernel="sharded", shards=...)'
        raise RefusalError("Sharded heads are needed", got, remedy)
    return found
