"""The examples under profiles/sites are what `write_site` writes for these made-up clusters, to the letter."""

import pytest

from tests.conftest import ROOT
from tests.unit.cluster_sample import ask_made_up, node, partition

CPU = partition("cpu", more="State=UP Default=YES")
CPU_NODE = node("c1", "cpu", cpus=128, mem=256000, more="MemSpecLimit=6000")
SITES = {
    "a100": (
        "nodes with four A100 (80 GB) each.",
        {
            "partitions": [CPU, partition("gpu", "1-00:00:00")],
            "nodes": [CPU_NODE, node("g1", "gpu", mem=500000, gres="gpu:a100:4(S:0-1)")],
        },
        [],
    ),
    "h100": (
        "nodes with four H100 each, beside older ones in the same partition.",
        {
            "partitions": [CPU, partition("gpu")],
            "nodes": [
                CPU_NODE,
                node("g1", "gpu", cpus=64, mem=500000, gres="gpu:a100:4"),
                node("g2", "gpu", cpus=96, mem=1000000, gres="gpu:h100:4"),
            ],
        },
        ["--gpu", "h100"],
    ),
    "h200": (
        "nodes with eight H200 each, in a partition for long jobs and one whose jobs can be pushed off.",
        {
            "partitions": [
                CPU,
                partition("h200", "3-00:00:00", "State=UP MaxNodes=4"),
                partition("h200-spare", "12:00:00").replace("PreemptMode=OFF", "PreemptMode=REQUEUE"),
            ],
            "nodes": [CPU_NODE, node("g1", "h200,h200-spare", cpus=128, mem=2000000, gres="gpu:h200:8")],
        },
        [],
    ),
}


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("file", ["profile.v9+.yaml", "partitions.yaml"])
def test_an_example_is_what_would_be_written(monkeypatch, tmp_path, name, file):
    about, cluster, options = SITES[name]
    assert ask_made_up(monkeypatch, tmp_path, cluster, *options, users="my_project|my_project|\n") == 0
    written = (tmp_path / file).read_text(encoding="utf-8")
    example = (ROOT / "profiles" / "sites" / name / file).read_text(encoding="utf-8")
    assert example == f"# An example with made up names: {about}\n{written}"
