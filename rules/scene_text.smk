# What the rules look up of the text on frames: who reads it, who is told it, who has it enlarged. No rule is defined here.


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
