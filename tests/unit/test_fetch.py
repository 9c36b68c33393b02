"""Taking in one's own videos and questions, and downloading weights from a hub that is a small server here."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import unicodedata
from pathlib import Path

import pytest
import yaml

from scripts.acquire import fetch_dataset
from scripts.lib import jsonl
from scripts.lib.errors import EngineError
from scripts.lib.records import Question, Source
from scripts.models import weights

ROOT = Path(fetch_dataset.__file__).parents[2]
LINE = {"key": "mine/a/1", "video": "a", "question_id": "1", "question": "Was?", "answers": ["Café"], "category": "c"}


@pytest.fixture
def own(tmp_path):
    """A folder with videos (names only: nothing is decoded here) and a command line."""
    (tmp_path / "config" / "datasets").mkdir(parents=True)
    (tmp_path / "config" / "schemas").symlink_to(ROOT / "config" / "schemas")
    videos = tmp_path / "videos"
    (videos / "Unterordner").mkdir(parents=True)
    for name in ("b.MP4", "a.mkv", f"Unterordner/{unicodedata.normalize('NFD', 'größe')}.webm", "._a.mp4", "notes.txt"):
        (videos / name).write_bytes(b"x")
    source = {"kind": "local", "videos": str(videos), "questions": str(tmp_path / "q.jsonl")}
    text = json.dumps({"title": "T", "licence": "CC0-1.0", "source": source}, ensure_ascii=False)
    (tmp_path / "config" / "datasets" / "mine.yaml").write_text(text, encoding="utf-8")

    def run(*lines: object) -> int:
        written = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        (tmp_path / "q.jsonl").write_text("\n".join(written) + "\n", encoding="utf-8")
        out = ["--manifest", str(tmp_path / "manifest.jsonl"), "--questions", str(tmp_path / "out.jsonl")]
        return fetch_dataset.main(["--dataset", str(tmp_path / "config" / "datasets" / "mine.yaml"), *out])

    run.folder = tmp_path
    return run


def test_videos_and_questions_are_taken_in(own):
    two = {
        **LINE,
        "key": "mine/weg/2",
        "video": "weg",
        "question_id": "2",
        "answers": [unicodedata.normalize("NFD", "é")],
    }
    assert own(two, LINE) == 0
    sources = list(jsonl.read(own.folder / "manifest.jsonl", Source))
    assert [(line.id, line.status) for line in sources] == [
        ("a", "ok"),
        ("b", "ok"),
        ("größe", "ok"),
        ("weg", "missing:other"),
    ]
    assert all(Path(line.path).is_file() for line in sources[:3]) and sources[3].path == ""
    assert {line.licence for line in sources} == {"CC0-1.0"}
    questions = list(jsonl.read(own.folder / "out.jsonl", Question))
    assert [line.key for line in questions] == ["mine/weg/2", "mine/a/1"]
    assert questions[0].answers == ["é"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([LINE, {**LINE, "t_question": "5"}], "q.jsonl:2: Question field t_question"),
        ([{key: value for key, value in LINE.items() if key != "answers"}], "q.jsonl:1: Question field answers"),
        ([{**LINE, "anwsers": []}], "q.jsonl:1: Question field anwsers"),
        ([LINE, LINE], "key 'mine/a/1' occurs twice"),
        ([LINE, "{"], "q.jsonl:2: Question field the line"),
        ([""], "q.jsonl: no questions in it"),
        ([{**LINE, "key": "other/a/1"}], "'other/a/1' must be 'mine/a/1'"),
        ([{**LINE, "options": ["x"], "ground_truth": "B"}], "q.jsonl:1: Question field the line"),
    ],
)
def test_a_wrong_line_is_named(own, capsys, lines, words):
    assert own(*lines) == 1
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (own.folder / "manifest.jsonl").exists()


def test_two_files_with_one_id_are_refused(own, capsys):
    (own.folder / "videos" / "Unterordner" / "a.mp4").write_bytes(b"y")
    assert own(LINE) == 1
    error = capsys.readouterr().err
    assert "a.mp4" in error and "the id 'a' is taken by" in error and "a.mkv" in error


def test_a_missing_or_empty_folder_is_named(own, capsys):
    for file in list((own.folder / "videos").rglob("*.*")):
        file.unlink()
    assert own(LINE) == 1
    assert "videos: no video in it (.avi, " in capsys.readouterr().err
    (own.folder / "videos").rename(own.folder / "elsewhere")
    assert own(LINE) == 1
    assert "videos: no such folder; correct source.videos" in capsys.readouterr().err


def test_a_missing_question_file_and_a_rendered_data_set_are_refused(own, capsys):
    assert own(LINE) == 0
    (own.folder / "q.jsonl").unlink()
    dataset = own.folder / "config" / "datasets" / "mine.yaml"
    out = ["--manifest", str(own.folder / "m.jsonl"), "--questions", str(own.folder / "o.jsonl")]
    assert fetch_dataset.main(["--dataset", str(dataset), *out]) == 1
    assert "q.jsonl: no such file" in capsys.readouterr().err
    demo = ROOT / "config" / "datasets" / "demo_signs.yaml"
    assert fetch_dataset.main(["--dataset", str(demo), *out]) == 1
    assert "source.kind is 'synthetic_signs'" in capsys.readouterr().err


REVISION, NEWEST = "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba9876543210fedcba98"
FILES = {"config.json": b'{"model_type": "tiny"}', "model.safetensors": b"\x00" * 64, "model.onnx": b"second copy"}


class Hub(http.server.BaseHTTPRequestHandler):
    """The few answers of a model hub that the client asks for."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.split("?")[0]
        if "gated" in path:
            self.answer(401 if "api" not in path else 403, b"{}", {"X-Error-Code": "GatedRepo"})
        elif "lab/tiny" not in path and "eye/tower" not in path:
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif path in ("/api/models/lab/tiny", "/api/models/eye/tower"):
            self.answer(200, json.dumps({"id": path[12:], "sha": NEWEST}).encode(), {})
        elif not (revision := next((one for one in (REVISION, NEWEST) if one in path), "")):
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif path.startswith("/api/") and "/tree/" in path:
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": oid(data)}
                for name, data in files_of(revision).items()
            ]
            self.answer(200, json.dumps(rows).encode(), {})
        elif path.startswith("/api/"):
            files = [{"rfilename": name, "size": len(data)} for name, data in files_of(revision).items()]
            self.answer(200, json.dumps({"id": "lab/tiny", "sha": revision, "siblings": files}).encode(), {})
        else:
            data = files_of(revision)[path.rsplit("/", 1)[1]]
            self.answer(200, data, {"ETag": f'"{oid(data)}"', "X-Repo-Commit": revision})

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


def files_of(revision):
    """The repository at one of its two commits."""
    return FILES if revision == REVISION else {**FILES, "config.json": b'{"model_type": "newer"}'}


def oid(data):
    return hashlib.sha1(data).hexdigest()


@pytest.fixture(scope="module")
def hub():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def fetch(folder, endpoint, name, revision=REVISION, kind="hub", more=(), towers=(), **environment):
    """Run the real step with the real client in a process of its own, because the client reads its address once."""
    (folder / "config" / "models").mkdir(parents=True, exist_ok=True)
    if not (folder / "config" / "schemas").exists():
        (folder / "config" / "schemas").symlink_to(ROOT / "config" / "schemas")
    weights = f"{{kind: hub, id: {name}, revision: '{revision}'}}" if kind == "hub" else f"{{kind: {kind}}}"
    model = (ROOT / "config" / "models" / "qwen3_vl_2b.yaml").read_text(encoding="utf-8")
    content = {**yaml.safe_load(model), "weights": yaml.safe_load(weights)}
    content["weights"] |= {"towers": [{"id": one, "revision": commit} for one, commit in towers]} if towers else {}
    path = folder / "config" / "models" / "m.yaml"
    path.write_text(json.dumps(content), encoding="utf-8")
    command = [sys.executable, "-m", "scripts.acquire.fetch_model", "--model", str(path), "--out", str(folder / "w ü")]
    command += more
    blank = {
        key: value for key, value in os.environ.items() if not key.startswith("HF_") and "proxy" not in key.lower()
    }
    blank |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), "HF_HUB_DISABLE_XET": "1", **environment}
    done = subprocess.run(command, cwd=ROOT, env=blank, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr.strip().splitlines()


def test_a_snapshot_is_fetched_whole(hub, tmp_path):
    status, lines = fetch(tmp_path, hub, "lab/tiny")
    assert status == 0, lines
    got = {file.relative_to(tmp_path / "w ü").as_posix(): file.read_bytes() for file in (tmp_path / "w ü").rglob("*.*")}
    assert got == {
        **{name: FILES[name] for name in ("config.json", "model.safetensors")},
        "revision.txt": f"{REVISION}\n".encode(),
    }
    assert not list(tmp_path.glob(".*.part"))
    (tmp_path / "w ü" / "stale.bin").write_bytes(b"old")
    assert fetch(tmp_path, hub, "lab/tiny")[0] == 0
    assert not (tmp_path / "w ü" / "stale.bin").exists()


@pytest.mark.parametrize(
    ("name", "revision", "kind", "environment", "words"),
    [
        ("lab/gated", REVISION, "hub", {}, "lab/gated at 0123456789ab: access is restricted; accept its licence"),
        ("lab/none", REVISION, "hub", {}, "the hub has no such model; correct weights.id"),
        ("lab/tiny", "f" * 40, "hub", {}, "lab/tiny at ffffffffffff: the hub has no such revision"),
        ("lab/tiny", REVISION, "hub", {"HF_HUB_OFFLINE": "1"}, "not downloaded"),
        pytest.param(
            *("lab/tiny", REVISION, "hub", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "check the network"),
            marks=pytest.mark.slow,  # the client tries several times, with pauses
        ),
        ("lab/tiny", "main", "hub", {}, "weights.revision: 'main' does not match"),
        (
            "lab/tiny",
            "",
            "hub",
            {},
            "config/models/m.yaml: weights.revision is empty; write the commit you want there, or",
        ),
        ("", "", "built", {}, "only hub is fetched"),
    ],
)
def test_what_goes_wrong_is_one_line_with_a_remedy(hub, tmp_path, name, revision, kind, environment, words):
    status, lines = fetch(tmp_path, hub, name, revision, kind, **environment)
    assert status == 1 and lines[-1].startswith("error: ") and words in lines[-1], lines
    assert len([line for line in lines if line.startswith("error")]) == 1 and not any("Traceback" in x for x in lines)
    assert not (tmp_path / "w ü").exists()


def test_without_a_pin_it_is_the_newest_commit_if_that_is_allowed(hub, tmp_path):
    status, lines = fetch(tmp_path, hub, "lab/tiny", "", more=["--allow-unpinned"])
    assert status == 0, lines
    folder = tmp_path / "w ü"
    assert (folder / "revision.txt").read_text() == f"{NEWEST}\n"
    assert (folder / "config.json").read_bytes() == files_of(NEWEST)["config.json"] != FILES["config.json"]
    model = {"name": "m", "weights": {"kind": "hub", "id": "lab/tiny", "revision": ""}}
    weights.check(model, folder)
    assert weights.revision(model, folder) == f"unpinned:{NEWEST}"
    pinned = {**model, "weights": {**model["weights"], "revision": REVISION}}
    with pytest.raises(EngineError, match=f"holds revision {NEWEST}, config/models/m.yaml asks for {REVISION}"):
        weights.check(pinned, folder)
    # Now it is pinned to the older commit, allowed or not.
    assert fetch(tmp_path, hub, "lab/tiny", more=["--allow-unpinned"])[0] == 0
    weights.check(pinned, folder)
    assert weights.revision(pinned, folder) == REVISION


@pytest.mark.parametrize(
    ("name", "environment", "words"),
    [
        ("lab/gated", {}, "lab/gated, newest commit: access is restricted"),
        ("lab/none", {}, "the hub has no such model"),
        ("lab/tiny", {"HF_HUB_OFFLINE": "1"}, "lab/tiny, newest commit: not downloaded"),
        ("lab/tiny", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "check the network"),
    ],
)
def test_a_newest_commit_that_cannot_be_asked_for_is_one_line_with_a_remedy(hub, tmp_path, name, environment, words):
    status, lines = fetch(tmp_path, hub, name, "", more=["--allow-unpinned"], **environment)
    assert status == 1 and lines[-1].startswith("error: ") and words in lines[-1], lines
    assert not any("Traceback" in line for line in lines) and not (tmp_path / "w ü").exists()


def test_towers_come_along_at_their_revisions(hub, tmp_path):
    status, lines = fetch(tmp_path, hub, "lab/tiny", towers=[("eye/tower", NEWEST)])
    assert status == 0, lines
    folder = tmp_path / "w ü"
    tower = folder / "towers" / "tower"
    assert (tower / "config.json").read_bytes() == files_of(NEWEST)["config.json"] != FILES["config.json"]
    assert (folder / "config.json").read_bytes() == FILES["config.json"]
    assert {file.name for file in tower.iterdir()} == {"config.json", "model.safetensors"}
    assert (folder / "revision.txt").read_text() == f"{REVISION}\neye/tower {NEWEST}\n"
    named = {"kind": "hub", "id": "lab/tiny", "revision": REVISION, "towers": [{"id": "eye/tower", "revision": NEWEST}]}
    model = {"name": "m", "weights": named}
    weights.check(model, folder)
    assert weights.revision(model, folder) == f"{REVISION}+tower@{NEWEST[:12]}"
    assert not list(tmp_path.glob(".*.part"))


def test_a_tower_without_a_revision_is_as_unpinned_as_the_model(hub, tmp_path):
    status, lines = fetch(tmp_path, hub, "lab/tiny", towers=[("eye/tower", "")])
    assert status == 1 and "m.yaml: weights.towers: the revision of eye/tower is empty; write the commit" in lines[-1]
    assert fetch(tmp_path, hub, "lab/tiny", towers=[("eye/tower", "")], more=["--allow-unpinned"])[0] == 0
    assert (tmp_path / "w ü" / "revision.txt").read_text() == f"{REVISION}\neye/tower {NEWEST}\n"


@pytest.mark.parametrize(
    ("tower", "words"),
    [
        (("eye/gated", REVISION), "eye/gated at 0123456789ab: access is restricted; accept its licence"),
        (("eye/none", REVISION), "the hub has no such model; correct weights.towers.id"),
        (("eye/tower", "f" * 40), "eye/tower at ffffffffffff: the hub has no such revision; correct weights.towers"),
    ],
)
def test_a_folder_appears_with_all_of_its_towers_or_not_at_all(hub, tmp_path, tower, words):
    """And the next try goes on with what was fetched, in a folder of these revisions alone."""
    status, lines = fetch(tmp_path, hub, "lab/tiny", towers=[tower])
    assert status == 1 and words in lines[-1] and not (tmp_path / "w ü").exists()
    (part,) = tmp_path.glob(".*.part")
    assert part.name == f".w ü.{REVISION[:12]}-{tower[1][:12]}.part" and (part / "model.safetensors").is_file()
