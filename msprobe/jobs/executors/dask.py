"""A Dask cluster: ``dask://HOST:PORT`` joins a running scheduler, ``dask://local`` starts one on this machine.

The workers need msprobe installed and see the dumps, and the output folder, under the same paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msprobe.core.distribution import install_command
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.host import cpu_count
from msprobe.jobs.executors.protocol import load_work

_CONNECT_SECONDS = 20


class DaskExecutor:
    """Runs work on the workers of a Dask cluster."""

    def __init__(self, address: str) -> None:
        """``address`` is ``HOST:PORT`` of a scheduler, or ``local``."""
        self._address = address

    def run(self, work: str, tasks: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Call ``work`` on every task; see ``Executor.run``."""
        with _connect(self._address) as client:
            from distributed import KilledWorker, as_completed

            futures = client.map(_call_work, [work] * len(tasks), tasks, pure=False)
            numbers = {future.key: number for number, future in enumerate(futures)}
            try:
                for future, answer in as_completed(futures, with_results=True):
                    yield numbers[future.key], answer
            except KilledWorker as error:
                raise _dask_error(f"the workers ended, perhaps out of memory ({error_text(error)})") from error


def _call_work(work: str, task: str) -> str:
    return load_work(work)(task)


@contextmanager
def _connect(address: str) -> Iterator[Any]:
    """Yield a client of the cluster.

    Raises:
        MsprobeException: Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise _dask_error(f"{error_text(error)}; it needs the extra `dask` ({install_command('dask')})") from error
    try:
        if address == "local":
            with _start_cluster(LocalCluster) as cluster, Client(cluster) as client:
                yield client
        else:
            with Client(f"tcp://{address}", timeout=_CONNECT_SECONDS) as client:
                yield client
    except (OSError, TimeoutError, ValueError) as error:
        raise _dask_error(f"no scheduler answers at {address} ({error_text(error)})") from error


def _start_cluster(cluster: Any) -> Any:
    """Start a cluster on this machine and return it.

    Its workers import the script of the user; the script must not call msprobe again when it is imported.
    """
    try:
        return cluster(n_workers=cpu_count(), threads_per_worker=1, dashboard_address="127.0.0.1:0")
    except RuntimeError as error:
        raise _dask_error(
            f"the workers of dask://local do not start ({error_text(error)}); they import the script that runs: put "
            'the call of msprobe under `if __name__ == "__main__":`'
        ) from error


def _dask_error(reason: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"executor dask: {reason}")
