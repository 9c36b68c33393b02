"""Decode every video of a manifest once, and write down what it really is and when each of its frames is shown.

Headers lie about frame counts, rates and ends; everything downstream uses what is found here. A file that is broken,
cut short, too slow or missing is marked once with the reason and never stops the run: its questions are counted as
errors later. Only a data set without a single usable video is refused.

Each finding is kept under the file's SHA-256, so a killed run, a renamed file or a data set sharing files costs nothing
twice. A time-out is kept for its limit; a file on which the process died (no memory?) is undecodable in this run and
tried again by the next. After fetching a broken file again just rerun.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.lib import cli, config, files, jsonl, progress, workers
from scripts.lib.cache import fingerprint
from scripts.lib.errors import DataError
from scripts.lib.probe import VERSION, Probe, probe
from scripts.lib.records import FrameTimes, Source, Video

NAMED = 8
"""So many bad files of a kind are named in the summary."""
REMEDIES = {
    "broken": "fetch or render again, unless its line gives another reason",
    "absent": "put the file where it is looked for, or correct the id in the questions",
    "lost": "not to be had, its questions are counted as errors",
}


def probe_into(task: tuple[Path, Path]) -> None:
    """Probe the first file and keep the finding in the second: done by the child, so that a kill loses nothing."""
    video, kept = task
    files.write_text(kept, probe(video).model_dump_json())


def folder(cache: Path) -> Path:
    """Where findings are kept: one folder per decoder version and set of rules."""
    import av

    return cache / fingerprint("probe", VERSION, av.__version__)


def digests(sources: Iterable[Source], workers_: int) -> dict[str, str]:
    """Video id to the SHA-256 of its file; empty where there is no file to read."""
    listed = list(sources)
    with ThreadPoolExecutor(max_workers=max(1, workers_)) as pool:
        hashed = pool.map(_digest, listed)
        return dict(zip([one.id for one in listed], progress.track(hashed, "hash", len(listed), "videos"), strict=True))


def _digest(source: Source) -> str:
    try:
        return files.sha256(Path(source.path)) if source.status == "ok" else ""
    except OSError:  # said in the video's line; one unreadable file never stops a run
        return ""


def probe_all(
    sources: list[Source], hashes: dict[str, str], cache: Path, count: int, limit_s: float
) -> dict[str, Probe]:
    """SHA-256 to finding, for every file that could be read; only those not in ``cache`` are decoded.

    Args:
        count: child processes.
        limit_s: seconds after which a file is given up. It is tried again only with another limit; one on which the
            process died is tried again by the next run.
    """
    paths = {hashes[one.id]: Path(one.path) for one in sources if hashes[one.id]}
    kept = {digest: folder(cache) / f"{digest}.json" for digest in paths}
    given_up = {digest: folder(cache) / f"{digest}.{limit_s:g}s.json" for digest in paths}
    todo = [digest for digest in paths if not kept[digest].is_file() and not given_up[digest].is_file()]
    todo.sort(
        key=lambda digest: -paths[digest].stat().st_size
    )  # the longest first, so that none is left over at the end
    outcomes = workers.run_all(probe_into, [(paths[digest], kept[digest]) for digest in todo], count, limit_s)
    unfinished: dict[str, Probe] = {}
    for digest, outcome in zip(todo, progress.track(outcomes, "probe", len(todo), "videos"), strict=True):
        if not outcome.error:
            continue
        print(f"probe  {paths[digest]}: {outcome.error}", file=sys.stderr, flush=True)
        unfinished[digest] = Probe(status="undecodable", detail=outcome.error)
        if outcome.timed_out:
            files.write_text(given_up[digest], unfinished[digest].model_dump_json())
    return {
        digest: unfinished.get(digest) or _load(kept[digest] if kept[digest].is_file() else given_up[digest])
        for digest in paths
    }


def _load(path: Path) -> Probe:
    return jsonl.parse(Probe, path.read_text(encoding="utf-8"), str(path))


def video_of(source: Source, dataset: str, digest: str, finding: Probe | None) -> Video:
    """The line of videos.jsonl for one source; ``finding`` is None where there is no file to read."""
    if finding is None:
        status = "missing:other" if source.status == "ok" else source.status
        detail = "the file is not there or cannot be read" if source.status == "ok" else "not acquired"
        finding = Probe(status=status, detail=detail)
    found = finding.model_dump(exclude={"times"})
    about = source.model_dump(include={"id", "path", "source", "licence"})
    return Video(dataset=dataset, sha256=digest, **about, **found)


def summary(videos: list[Video]) -> str:
    """One line: how many of each status, the bad ones by name, and what to do about each kind."""
    counts = Counter(video.status for video in videos)
    counted = ", ".join(
        f"{count} {status}" for status, count in sorted(counts.items(), key=lambda item: item[0] != "ok")
    )
    bad: dict[str, list[str]] = {}
    for video in videos:
        if video.status != "ok":
            bad.setdefault(_kind(video), []).append(f"{Path(video.path).name or video.id} ({video.status})")
    parts = [counted]
    for kind in REMEDIES:
        names = bad.get(kind, [])
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        parts += [f"{', '.join(names[:NAMED])}{more}: {REMEDIES[kind]}"] if names else []
    return "; ".join([*parts, "then rerun"] if bad.keys() - {"lost"} else parts)


def _kind(video: Video) -> str:
    """Which of ``REMEDIES`` fits a video that is not ok."""
    if not video.status.startswith("missing:"):
        return "broken"
    return "absent" if video.status == "missing:other" else "lost"


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--dataset", type=Path, required=True, help="YAML under config/datasets/")
    parser.add_argument("--manifest", type=Path, required=True, help="manifest.jsonl (Source records)")
    parser.add_argument("--videos", type=Path, required=True, help="videos.jsonl to write (Video records)")
    parser.add_argument("--frame-times", type=Path, required=True, help="frame_times.jsonl to write, of usable videos")
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps findings between runs")
    parser.add_argument("--workers", type=int, default=2, help="videos decoded at a time (default 2)")
    parser.add_argument("--timeout-s", type=float, default=600, help="give a video up after so long (default 600)")
    return parser


def step(args: argparse.Namespace) -> None:
    dataset = config.read_file("dataset", args.dataset)["name"]
    sources = list(jsonl.read_unique(args.manifest, Source, "id").values())
    hashes = digests(sources, args.workers)
    findings = probe_all(sources, hashes, args.cache, args.workers, args.timeout_s)
    videos = [video_of(one, dataset, hashes[one.id], findings.get(hashes[one.id])) for one in sources]
    usable = [video for video in videos if video.usable]
    if not usable:
        first = f": {videos[0].path or videos[0].id}: {videos[0].detail}" if videos else ""
        raise DataError(f"{args.manifest}: none of {len(videos)} videos can be used{first}; fetch the videos again")
    jsonl.write(args.videos, videos)
    jsonl.write(args.frame_times, [_times(video.id, findings[video.sha256]) for video in usable])
    print(f"probe_videos {dataset}: {summary(videos)}", file=sys.stderr, flush=True)


def _times(video: str, finding: Probe) -> FrameTimes:
    assert finding.times is not None, "a usable video has frames"
    return finding.times.model_copy(update={"id": video})


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
