"""A logger for Snakemake that writes every job of a plan as one JSON line: rule, wildcards, threads, resources,
container; and every group.

Snakemake finds it by the name of this package where the folder above is on PYTHONPATH. scripts/estimate/planned.py
reads what it writes. This module runs inside Snakemake and imports nothing of ours.
"""

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake.jobs import Job
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):  # type: ignore[misc]
    """Its options on Snakemake's command line."""

    file: Path | None = field(default=None, metadata={"help": "JSON Lines to write", "type": Path, "required": True})


class LogHandler(LogHandlerBase):  # type: ignore[misc]
    """Keeps to its own file; what a person sees of Snakemake stays as it is."""

    writes_to_stream = False
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        self.plan = Path(self.settings.file).open("w", encoding="utf-8")  # noqa: SIM115 - closed by Snakemake
        self.images: dict[int, str] = {}
        _note_images(self.images)

    def emit(self, record: Any) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self._write(job=_job(record, self.images[record.jobid]))
        elif event == LogEvent.GROUP_INFO:
            self._write(group=sorted(job.jobid for job in record.jobs))
        elif event == LogEvent.RUN_INFO:
            self._write(total=record.stats["total"])

    def _write(self, **line: Any) -> None:
        self.plan.write(json.dumps(line, ensure_ascii=False) + "\n")

    def close(self) -> None:
        self.plan.close()
        super().close()


def _note_images(images: dict[int, str]) -> None:
    """From now on, put each job's container there, by the job's number, before its record is made.

    No record tells it. It is empty for jobs that run without a container, whatever their rule says.
    """
    log_info = Job.log_info

    @functools.wraps(log_info)
    def noting(job: Any, *args: Any, **options: Any) -> None:
        images[job.jobid] = str(job.container_img_url) if job.needs_singularity else ""
        log_info(job, *args, **options)

    Job.log_info = noting


def _job(record: Any, image: str) -> dict[str, Any]:
    return {
        "id": record.jobid,
        "rule": record.rule_name,
        "wildcards": dict(record.wildcards),
        "threads": record.threads,
        "resources": _numbers(record.resources.items()),
        "makes": len(record.output),
        "image": image,
    }


def _numbers(resources: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """Those that have a number already; others are known only once a job's inputs are there."""
    return {str(name): value for name, value in resources if isinstance(value, int)}
