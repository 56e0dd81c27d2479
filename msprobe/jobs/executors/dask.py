"""A Dask cluster: ``dask://HOST:PORT`` joins a running scheduler, ``dask://local`` starts one on this machine.

The workers need msprobe installed and see the dumps, and the output folder, under the same paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.host import cpu_count
from msprobe.jobs.executors.protocol import work_named

_CONNECT_SECONDS = 20


class DaskExecutor:
    """``address`` is ``HOST:PORT`` or ``local``."""

    def __init__(self, address: str) -> None:
        self._address = address

    def run(self, work: str, tasks: Sequence[str]) -> Iterator[tuple[int, str]]:
        with _client(self._address) as client:
            from distributed import KilledWorker, as_completed

            futures = client.map(_do, [work] * len(tasks), tasks, pure=False)
            numbers = {future.key: number for number, future in enumerate(futures)}
            try:
                for future, answer in as_completed(futures, with_results=True):
                    yield numbers[future.key], answer
            except KilledWorker as error:
                raise _refused(f"the workers ended, perhaps out of memory ({error_text(error)})") from error


def _do(work: str, task: str) -> str:
    return work_named(work)(task)


@contextmanager
def _client(address: str) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise _refused(f"{error_text(error)}; it needs the extra `dask` (pip install 'msprobe[dask]')") from error
    try:
        if address == "local":
            with _started(LocalCluster) as cluster, Client(cluster) as client:
                yield client
        else:
            with Client(f"tcp://{address}", timeout=_CONNECT_SECONDS) as client:
                yield client
    except (OSError, TimeoutError, ValueError) as error:
        raise _refused(f"no scheduler answers at {address} ({error_text(error)})") from error


def _started(cluster: Any) -> Any:
    """A cluster of this machine. Its workers import the script that runs, which must not start another one there."""
    try:
        return cluster(n_workers=cpu_count(), threads_per_worker=1, dashboard_address="127.0.0.1:0")
    except RuntimeError as error:
        raise _refused(
            f"the workers of dask://local do not start ({error_text(error)}); they import the script that runs: put "
            'the call of msprobe under `if __name__ == "__main__":`'
        ) from error


def _refused(reason: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"executor dask: {reason}")
