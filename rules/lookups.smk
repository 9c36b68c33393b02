# What the rules look up: files, flags and resources of a job, tables of a target. No rule is defined here.


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


def needed_scores(name):
    """The scores that one table must have; one with ``allow_missing`` takes what there is already."""
    return plan.needed_scores(name, TABLES, config["tables"], Path("results"))


def all_cells():
    return sorted({scored.cell for name in config["tables"] for scored in needed_scores(name)})


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
    return [f"results/{scored.folder}/scores.json" for scored in needed_scores(name)]


def cell_weights(wildcards):
    return [] if MODELS[wildcards.model]["weights"]["kind"] == "none" else f"resources/models/{wildcards.model}"


def sampler_input(need, path):
    """An input function: ``path`` for the samplers whose YAML says that they need it, nothing for the others."""
    return lambda wildcards: (
        path.format(dataset=wildcards.dataset) if need in SAMPLERS[wildcards.sampler].get("needs", []) else []
    )


def option(flag, files):
    """``--flag file`` for a command line, or nothing where there is no file."""
    names = [files] if isinstance(files, str) else files
    return " ".join([f"--{flag}", *map(shlex.quote, names)]) if names else ""


def unpinned(wildcards):
    """A flag for models that the settings allow to run although nothing says which version of theirs it is."""
    return "--allow-unpinned" if wildcards.model in UNPINNED and pins.unpinned(MODELS[wildcards.model]) else ""


def asks_server(wildcards):
    return JUDGES[wildcards.judge]["kind"] == "llm"


def judge_prompt(wildcards):
    return f"config/prompts/{JUDGES[wildcards.judge]['prompt']}.yaml" if asks_server(wildcards) else []


def judge_files(wildcards):
    """Rating sheets, or what somebody else made of this model's answers."""
    judge = JUDGES[wildcards.judge]
    return judge.get("sheets") or judge.get("files", {}).get(wildcards.model, [])


def rated_cells(wildcards):
    """The cells whose answers people rate."""
    return cells.rated_cells(AGREEMENTS[wildcards.agreement]).values()


def rating_sheets(wildcards):
    """What raters sent back."""
    return or_stop(plan.rating_sheets, AGREEMENTS[wildcards.agreement])


def judge_resource(key, otherwise):
    """A resource function read off the judge's YAML, for judges that say it."""
    return lambda wildcards, attempt: JUDGES[wildcards.judge].get("resources", {}).get(key, otherwise) * attempt


def unpinned_judge(wildcards):
    judge = JUDGES[wildcards.judge]
    return "--allow-unpinned" if wildcards.judge in UNPINNED and pins.unpinned(judge) else ""


def judge_versions(wildcards):
    kind = JUDGES[wildcards.judge]["kind"]
    read = ["scripts/judges/replies.py", "scripts/infer/prompting.py"] if kind == "llm" else []
    return versions("scripts/judge/judge_cell.py", f"scripts/judges/{kind}.py", *read)


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


def short_judgements(wildcards):
    """The batch for judging by rules and files, which takes seconds; servers take longer."""
    batched = "short_judgements" in workflow.group_settings.group_components
    return "short_judgements" if batched and not asks_server(wildcards) else None


SHORT_MIN = 60
"""Minutes of a job that still go into a batch."""


def growing(amount):
    """A resource that grows with each attempt: MB of memory, minutes."""
    return lambda wildcards, attempt: amount * attempt


def model_resource(key, grows=False):
    """A resource function read off the model's YAML; memory and time grow with each attempt."""
    return lambda wildcards, attempt: MODELS[wildcards.model]["resources"][key] * (attempt if grows else 1)
