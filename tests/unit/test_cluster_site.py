"""What `write_site` reads from a cluster's answers, on made-up clusters in the form Slurm writes them."""

import pytest
import yaml

from scripts.cluster import site, write_site
from scripts.lib.errors import DataError, EngineError
from tests.conftest import ROOT
from tests.unit.cluster_sample import ask_made_up, node, partition

A100 = {
    "partitions": [
        partition("cpu", more="State=UP Default=YES MaxNodes=4"),
        partition("a100", "1-00:00:00"),
        partition("debug", "00:30:00"),
        partition("old", more="State=DOWN"),
        partition("broken"),
        partition("admin", more="State=UP RootOnly=YES"),
        partition("others", more="State=UP AllowAccounts=physics,chemistry"),
    ],
    "nodes": [
        node("c1", "cpu,old,admin,others", cpus=128, mem=256000, more="CPUEfctv=124 MemSpecLimit=6000"),
        node("c2", "cpu", cpus=256, mem=2000000, state="DOWN*+DRAIN"),
        node("g1", "a100,debug", gres="gpu:a100:4(S:0-1),nvme:1", state="MIXED+CLOUD"),
        node("b1", "broken", state="DRAINED"),
    ],
}
H100 = {
    "partitions": [partition("standard", "UNLIMITED"), partition("gpu", "3-12:00:00", "State=UP MaxNodes=2")],
    "nodes": [
        node("h1", "gpu", gres="gpu:nvidia_h100_80gb_hbm3:8(S:0-1)"),
        node("h2", "gpu", gres="gpu:a100:4", state="ALLOCATED"),
        node("s1", "standard", state="IDLE~"),
    ],
}
H200 = {
    "partitions": [partition("batch"), partition("preempt").replace("PreemptMode=OFF", "PreemptMode=REQUEUE")],
    "nodes": [
        node("n1", "batch,preempt", cpus=8, gres="gpu:8"),
        node("n2", "batch", cpus=8, gres="gpu:1g.18gb:7,gpu:h200:2"),
    ],
}


def write(monkeypatch, tmp_path, cluster, *arguments, **answers):
    status = ask_made_up(monkeypatch, tmp_path / "mine", cluster, *arguments, **answers)
    if status:
        return status
    files = [tmp_path / "mine" / name for name in ("partitions.yaml", "profile.v9+.yaml")]
    return [yaml.safe_load(file.read_text()) for file in files]


def test_partitions_have_the_limits_of_their_nodes_and_the_others_are_left_out(monkeypatch, tmp_path, capsys):
    parts, profile = write(monkeypatch, tmp_path, A100, users="vision|vision|\n")
    assert parts["partitions"] == {
        "cpu": {"max_runtime": 2880, "max_mem_mb": 250000, "max_threads": 124, "max_nodes": 4},
        "a100": {
            "max_runtime": 1440,
            "max_mem_mb": 512000,
            "max_threads": 64,
            "max_gpu": 4,
            "available_gpu_models": ["a100"],
        },
    }
    assert profile == {
        "slurm-partition-config": "partitions.yaml",
        "cores": 16,
        "default-resources": {"slurm_account": "vision"},
    }
    text = (tmp_path / "mine" / "partitions.yaml").read_text()
    for name, reason in {
        "debug": "trying things out",
        "old": "not UP",
        "broken": "none of its 1 nodes is up and of known size",
        "admin": "root only",
        "others": "none of your accounts",
    }.items():
        assert any(name in line and reason in line for line in text.splitlines()), name
    assert "partitions left out by their name: debug" in capsys.readouterr().err


def test_every_line_says_where_it_comes_from(monkeypatch, tmp_path):
    write(monkeypatch, tmp_path, A100, "--gpu", "a100", users="vision|vision|20\n")
    for name in ("partitions.yaml", "profile.v9+.yaml"):
        explained = False
        for line in (tmp_path / "mine" / name).read_text().splitlines():
            if line.lstrip().startswith("#"):
                explained = True
            elif not line.startswith(" "):
                assert explained, line
                explained = False
            elif name == "partitions.yaml" and line.startswith("    "):
                assert "#" in line, line


def test_the_number_of_jobs_follows_the_limit_of_the_account(monkeypatch, tmp_path):
    assert write(monkeypatch, tmp_path, A100, users="vision|vision|20\n")[1]["jobs"] == 20
    assert "jobs" not in write(monkeypatch, tmp_path, A100, users="vision|vision|5000\n")[1]


def test_an_account_that_may_send_no_jobs_is_told_of(monkeypatch, tmp_path, capsys):
    assert "jobs" not in write(monkeypatch, tmp_path, A100, users="vision|vision|0\n")[1]
    assert "MaxSubmitJobs of account vision is 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["0123", "on", "Null", "1e3", "1.5", "a b", "~", "vision", "my-project", "3090", "1g.10gb"]
)
def test_names_are_text_to_whoever_reads_the_files(monkeypatch, tmp_path, name):
    cluster = {"partitions": [partition(name.replace(" ", ""))], "nodes": [node("n1", name.replace(" ", ""))]}
    parts, profile = write(monkeypatch, tmp_path, cluster, users=f"{name}|{name}|\n")
    assert profile["default-resources"] == {"slurm_account": name}
    assert list(parts["partitions"]) == [name.replace(" ", "")]


@pytest.mark.parametrize("kind", ["3090", "2080ti", "1e3"])
def test_types_of_gpus_are_text_too(monkeypatch, tmp_path, kind):
    cluster = {"partitions": [partition("gpu")], "nodes": [node("n1", "gpu", gres=f"gpu:{kind}:4")]}
    parts, profile = write(monkeypatch, tmp_path, cluster, "--gpu", kind)
    assert parts["partitions"]["gpu"]["available_gpu_models"] == [kind]
    assert profile["set-resources"]["run_cell"] == {"gpu_model": kind}


def test_a_type_that_the_plugin_would_refuse_is_refused_here(monkeypatch, tmp_path, capsys):
    kind = "a100-sxm4-80gb"
    cluster = {"partitions": [partition("gpu")], "nodes": [node("n1", "gpu", gres=f"gpu:{kind}:4")]}
    assert write(monkeypatch, tmp_path, cluster, "--gpu", kind) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "leave --gpu out" in told and "constraint" in told
    assert not (tmp_path / "mine").exists()
    assert write(monkeypatch, tmp_path, cluster)[0]["partitions"]["gpu"]["available_gpu_models"] == [kind]


@pytest.mark.parametrize("lacks", ["CPUTot=64 ", "RealMemory=512000 "])
@pytest.mark.parametrize("instead", ["", "CPUTot=N/A RealMemory=N/A "])
def test_a_node_of_unknown_size_is_left_out_and_said(monkeypatch, tmp_path, capsys, lacks, instead):
    silent = node("n2", "cpu").replace(lacks, instead)
    cluster = {"partitions": [partition("cpu")], "nodes": [node("n1", "cpu", cpus=4, mem=8000), silent]}
    parts, _ = write(monkeypatch, tmp_path, cluster)
    assert parts["partitions"]["cpu"] == {"max_runtime": 2880, "max_mem_mb": 8000, "max_threads": 4}
    assert "nodes left out, for Slurm does not say their CPUs or memory: n2" in capsys.readouterr().err


def test_of_several_accounts_the_default_is_taken_and_said(monkeypatch, tmp_path, capsys):
    users = "vision|other|\nvision|vision|\n"
    assert write(monkeypatch, tmp_path, A100, users=users)[1]["default-resources"] == {"slurm_account": "vision"}
    assert "you have other, vision; your default, vision, is written" in capsys.readouterr().err
    chosen = write(monkeypatch, tmp_path, A100, "--account", "other", users=users)[1]
    assert chosen["default-resources"] == {"slurm_account": "other"}


def test_one_type_of_gpu_can_be_chosen(monkeypatch, tmp_path, capsys):
    parts, profile = write(monkeypatch, tmp_path, H100)
    assert parts["partitions"]["gpu"]["available_gpu_models"] == ["a100", "nvidia_h100_80gb_hbm3"]
    assert "max_runtime" not in parts["partitions"]["standard"]
    assert parts["partitions"]["gpu"]["max_runtime"] == 3 * 1440 + 720
    assert "set-resources" not in profile
    assert "Choose one type with --gpu" in capsys.readouterr().err
    profile = write(monkeypatch, tmp_path, H100, "--gpu", "nvidia_h100_80gb_hbm3")[1]
    assert profile["set-resources"]["run_cell"] == {"gpu_model": "nvidia_h100_80gb_hbm3"}


def test_gpus_without_a_type_and_slices_of_gpus(monkeypatch, tmp_path, capsys):
    parts, profile = write(monkeypatch, tmp_path, H200)
    assert parts["partitions"]["batch"]["max_gpu"] == 8
    assert parts["partitions"]["batch"]["available_gpu_models"] == ["h200"], "a slice is no GPU unless it is asked for"
    assert "available_gpu_models" not in parts["partitions"]["preempt"]
    assert profile["cores"] == 8
    assert "push jobs off" in capsys.readouterr().err
    assert list(write(monkeypatch, tmp_path, H200, "--gpu", "h200")[0]["partitions"]) == ["batch"]


def test_mistakes_are_one_line_with_the_remedy(monkeypatch, tmp_path, capsys):
    assert write(monkeypatch, tmp_path, H100, "--gpu", "b200") == 1
    assert "no GPU of type 'b200' in the partitions used; the cluster has" in capsys.readouterr().err
    assert write(monkeypatch, tmp_path, H100, "--partitions", "nothing") == 1
    assert "name some with --partitions" in capsys.readouterr().err
    with pytest.raises(EngineError, match="login node"):
        monkeypatch.undo()
        write_site.ask(["no-such-command"])


def test_a_slurm_that_forgets_at_once_is_told_of(monkeypatch, tmp_path, capsys):
    forgetful = "AccountingStorageType = accounting_storage/none\nMinJobAge = 2 sec\n"
    write(monkeypatch, tmp_path, A100, config=forgetful)
    assert "MinJobAge is 2 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [("UNLIMITED", None), ("30", 30), ("30:00", 30), ("12:30:00", 750), ("7-00:00:00", 10080), ("1-12", 2160)],
)
def test_times(text, expected):
    assert site.minutes(text) == expected


def test_a_time_that_is_none_is_refused():
    with pytest.raises(DataError, match="no time limit"):
        site.minutes("soon")


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ("(null)", {}),
        ("gpu:4", {"": 4}),
        ("gpu:a100:4(S:0-1)", {"a100": 4}),
        ("gpu:2080ti:8", {"2080ti": 8}),
        ("gpu:3090:4", {"3090": 4}),
        ("gpu:tesla:2,gpu:3090:2(S:0-1)", {"tesla": 2, "3090": 2}),
        ("gpu:a100-sxm4-80gb:4(S:0-1),gpu:4", {"a100-sxm4-80gb": 4, "": 4}),
        ("gpu:a100", {}),
        ("gpu:h100:4,gpu:1g.10gb:7(S:0),shard:8", {"h100": 4, "1g.10gb": 7}),
        ("nvme:1,gpu:nvidia_h200:8(S:0,2)", {"nvidia_h200": 8}),
    ],
)
def test_gpus_of_a_node(gres, expected):
    assert site.gpus(gres) == expected


def test_the_rules_that_can_ask_for_a_gpu_are_found():
    assert "run_cell" in write_site.gpu_rules(ROOT)
    assert "score_cell" not in write_site.gpu_rules(ROOT)
