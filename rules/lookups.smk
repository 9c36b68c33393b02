# What the rules look up: files, flags and resources of a cell, tables of a target. No rule is defined here.


def datasets_of(*kinds):
    return [name for name, dataset in DATASETS.items() if dataset["source"]["kind"] in kinds]


def models_of(weights):
    return [name for name, model in MODELS.items() if model["weights"]["kind"] == weights]


def models_elsewhere():
    """The models whose answers were made elsewhere."""
    return [name for name, model in MODELS.items() if model["adapter"] == "predictions"]


def models_of_shards(several):
    """The models whose cells are made here, in several jobs or in one."""
    here = set(MODELS) - set(models_elsewhere())
    return [name for name in MODELS if name in here and (shards_of(name) > 1) == several]


def shards_of(model):
    return MODELS[model]["resources"].get("shards", 1)


def needed_cells(name):
    """The cells that one table must have; one with ``allow_missing`` takes what is scored already."""
    return plan.needed_cells(name, TABLES, config["tables"], Path("results/scores"))


def all_cells():
    return sorted({cell for name in config["tables"] for cell in needed_cells(name)})


def prediction_file(cell):
    return f"results/predictions/{cell}/predictions.jsonl"


def shard_files(wildcards):
    """All shards of one cell."""
    folder = f"results/predictions/{cells.PATTERN.format(**wildcards)}/shards"
    return [f"{folder}/{shard}.jsonl" for shard in cells.shard_names(shards_of(wildcards.model))]


def table_files(names):
    return [f"results/tables/{name}.{suffix}" for name in names for suffix in TABLE_SUFFIXES]


def targets(taken):
    """Target to the files it makes: ``demo`` = a folder of tables and its report, ``demo_signs`` = one table."""
    tables = or_stop(plan.short_names, TABLES, taken)
    return {short: table_files([name]) for short, name in tables.items()} | {
        paper: [*table_files(made), f"results/reports/{paper}.html"] for paper, made in plan.papers(TABLES).items()
    }


def track_files():
    """Tracks of every (data set, sampler, resolution) whose text some cell reads."""
    read = {f"{cell.dataset}/{cell.sampler}/{cell.resolution}" for cell in all_cells() if needs_ocr(cell.model)}
    return [f"resources/tracks/{one}.jsonl" for one in sorted(read)]


def score_files(name):
    """The scores that one table reads."""
    return [f"results/scores/{cell}/scores.json" for cell in needed_cells(name)]


def needs_ocr(model):
    return "ocr" in MODELS[model]["needs"]


def cell_ocr(wildcards):
    """Text on the frames of a cell, for models that read it; nothing for the others."""
    return (
        f"resources/ocr/{wildcards.dataset}/{wildcards.sampler}/{wildcards.resolution}.jsonl"
        if needs_ocr(wildcards.model)
        else []
    )


def cell_scene_text(wildcards):
    """Text on the frames that the prompt tells: this workflow's reading at full resolution, or somebody else's."""
    reading = PROMPTS[wildcards.prompt].get("scene_text")
    if reading is None:
        return []
    if reading == "ocr":
        return f"resources/ocr/{wildcards.dataset}/{wildcards.sampler}/native.jsonl"
    return f"resources/scene_text/{wildcards.dataset}/{wildcards.sampler}/{reading}.jsonl"


def cell_crops(wildcards):
    """Enlarged text for the frames of a cell, where its resolution puts it there."""
    enlarges = wildcards.resolution in resolutions_with_text() and PROMPTS[wildcards.prompt]["frames"] == "sampled"
    if not enlarges or "frames" not in MODELS[wildcards.model]["needs"]:
        return []
    return f"resources/text_crops/{wildcards.dataset}/{wildcards.sampler}/{cut_like(wildcards.resolution)}.zip"


def read_elsewhere(wildcards):
    """The state of a folder of readings that somebody else made."""
    return triggers.folder_state(DATASETS[wildcards.dataset]["scene_text"][wildcards.reading]["files"])


def resolutions_with_text():
    """The resolutions that enlarge the text on frames."""
    return [name for name, resolution in RESOLUTIONS.items() if "scene_text" in resolution]


def cut_like(name):
    """The resolution whose enlarged text is this one's: how large it is put back makes no difference to cutting it."""
    alike = lambda one: {key: value for key, value in one.items() if key not in ("title", "name", "scale")}
    wanted = RESOLUTIONS[name]
    return min(
        other
        for other in resolutions_with_text()
        if alike(RESOLUTIONS[other] | {"scene_text": None}) == alike(wanted | {"scene_text": None})
        and alike(RESOLUTIONS[other]["scene_text"]) == alike(wanted["scene_text"])
    )


def read_like(wildcards):
    """Text on the same frames as shrunk by another resolution of this size, which need not be read twice."""
    size = lambda one: (one["kind"], one.get("pixels"))
    same = [name for name, one in RESOLUTIONS.items() if size(one) == size(RESOLUTIONS[wildcards.resolution])]
    plain = sorted(set(same) - set(resolutions_with_text())) or [wildcards.resolution]
    return f"resources/ocr/{wildcards.dataset}/{wildcards.sampler}/{plain[0]}.jsonl"


def enlarged_by(wildcards):
    return RESOLUTIONS[wildcards.resolution]["scene_text"]["method"]


def crops_weights(wildcards):
    """The folder that the user puts DiffTSR's weights into (docs/super_resolution.md)."""
    return "resources/models/difftsr" if enlarged_by(wildcards) == "difftsr" else []


def cell_weights(wildcards):
    return [] if MODELS[wildcards.model]["weights"]["kind"] == "none" else f"resources/models/{wildcards.model}"


def sampler_input(need, path):
    """An input function: ``path`` for the samplers whose YAML says that they need it, nothing for the others."""
    return lambda wildcards: (
        path.format(dataset=wildcards.dataset) if need in SAMPLERS[wildcards.sampler].get("needs", []) else []
    )


def option(flag, files):
    """``--flag file`` for a command line, or nothing where there is no file."""
    return f"--{flag} {files}" if files else ""


def unpinned(wildcards):
    """A flag for models that the settings allow to run although nothing says which version of theirs it is."""
    return "--allow-unpinned" if wildcards.model in UNPINNED and pins.unpinned(MODELS[wildcards.model]) else ""


def versions(*modules):
    """The version constants of modules, as a param: see scripts/lib/triggers.py."""
    return or_stop(triggers.versions, *modules)


def adapter_versions(wildcards):
    """What else than files a prediction goes by: versions of the adapter, of the words, and of what is told and read."""
    prompt = PROMPTS[wildcards.prompt]
    adapter = Path(*ADAPTERS[MODELS[wildcards.model]["adapter"]].split(".")).with_suffix(".py")
    used = [adapter, "scripts/models/answers.py", "scripts/infer/prompting.py"]
    used += ["scripts/models/openai_chat.py"] if "server" in MODELS[wildcards.model] else []
    used += ["scripts/infer/person.py"] if "person" in prompt else []
    used += ["scripts/infer/scene_text.py"] if "scene_text" in prompt else []
    used += ["scripts/ocr/tracks.py"] if needs_ocr(wildcards.model) else []
    return versions(*used)


def footage(wildcards):
    """The state of a local data set's folder of videos."""
    return triggers.folder_state(DATASETS[wildcards.dataset]["source"]["videos"])


def short_cells(wildcards):
    """The batch for cells that take minutes on a CPU, where the profile gives batches a size; APIs take longer."""
    batched, needs = "short_cells" in workflow.group_settings.group_components, MODELS[wildcards.model]["resources"]
    return "short_cells" if batched and not needs["gpus"] and needs["runtime_min"] <= SHORT_MIN else None


SHORT_MIN = 60
"""Minutes of a job that still go into a batch."""


def growing(amount):
    """A resource that grows with each attempt: MB of memory, minutes."""
    return lambda wildcards, attempt: amount * attempt


def model_resource(key, grows=False):
    """A resource function read off the model's YAML; memory and time grow with each attempt."""
    return lambda wildcards, attempt: MODELS[wildcards.model]["resources"][key] * (attempt if grows else 1)
