"""Build container images from their .def, their hashed locks and a base given by digest.

Each image is made as a folder by `apptainer build`, then packed into a .sif whose bytes depend on nothing but the
folder's content (see pack.py). Its digest goes into images.yaml and, shortened, into the file's name, which rules use.

The root of all images is Debian: from the registry, at the digest in images.yaml, or, where no registry answers, made
by mmdebstrap from the packages' mirror that this machine uses. Which of the two, the image's labels say.

examples:
  containers/build.sh base tables          these two
  containers/build.sh --missing all        whatever is not here yet
  containers/build.sh --newest-debs ocr    with what Debian's mirror has today, rewriting envs/<image>.debs
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from containers import pack
from containers.pack import call
from scripts.lib import cli, images
from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.files import write_text

WORK = images.FOLDER / ".build"
CACHE = images.FOLDER / ".cache"
ENVS = Path("envs")
LABEL = "org.text-in-video"
REGISTRY = "https://registry-1.docker.io/v2/"
TORCH_CPU = "https://download.pytorch.org/whl/cpu"


def registry_answers() -> bool:
    """Whether Docker Hub can be reached (it asks for a token, which is an answer)."""
    try:
        urllib.request.urlopen(REGISTRY, timeout=10)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def debian_root(base: dict[str, Any], log: Path) -> Path:
    """A Debian root made here from the packages' mirror, once."""
    root = CACHE / f"debian-{base['suite']}"
    if root.is_dir():
        return root
    if not shutil.which("mmdebstrap"):
        raise EngineError(
            "no container registry answers and mmdebstrap is not here: install it (apt install mmdebstrap)"
        )
    print("base: no registry answers; making a Debian root from the package mirror (about a minute)", file=sys.stderr)
    partial = CACHE / f"debian-{base['suite']}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    tar = (CACHE / "debian.tar").absolute()
    # The hook leaves no trace of the mirror: install.sh is told where packages come from.
    forget = (
        'rm -rf "$1"/etc/apt/sources.list* "$1"/var/lib/apt/lists "$1"/var/cache/apt;'
        ' mkdir -p "$1"/etc/apt/sources.list.d "$1"/var/lib/apt/lists/partial "$1"/var/cache/apt/archives/partial'
    )
    call(
        [
            "mmdebstrap",
            "--variant=minbase",
            f"--customize-hook={forget}",
            base["suite"],
            str(tar),
            *mirrors(base["suite"]),
        ],
        log,
    )
    # No device nodes: they cannot be unpacked in a user namespace, and apptainer brings its own.
    call(["tar", "-C", str(partial), "--exclude=./dev/*", "--no-same-owner", "-xf", str(tar)], log)
    tar.unlink()
    partial.rename(root)
    return root


def mirrors(suite: str) -> list[str]:
    """Where Debian's packages come from: this machine's own list if it runs that release, else Debian's.

    Sources that are not Debian's (a vendor's list) are left out.
    """
    folder = Path("/etc/apt/sources.list.d")
    own = [Path("/etc/apt/sources.list"), *(sorted(folder.iterdir()) if folder.is_dir() else [])]
    for file in own:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        if re.search(rf"^Suites:.*\b{suite}\b", text, re.M):
            uris = re.findall(r"^URIs:\s*(\S+)\s*\nSuites:\s*(.+)$", text, re.M)
            return [f"deb {uri} {one} main" for uri, ones in uris for one in ones.split()]
        lines = re.findall(rf"^deb (?:\[[^]]*\] )?(\S+) ({suite}\S*) ", text, re.M)
        if lines:
            return [f"deb {uri} {one} main" for uri, one in lines]
    return [
        f"deb http://deb.debian.org/debian {suite} main",
        f"deb http://deb.debian.org/debian {suite}-updates main",
        f"deb http://deb.debian.org/debian-security {suite}-security main",
    ]


def prepare(name: str, newest_debs: bool, log: Path) -> Path:
    """The folder that is bound at /opt/build: tools, locks, and where to get packages. Holds this machine's settings,
    so it is never inside the image."""
    spec = images.spec(name)
    folder = WORK / name / "opt"
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("locks", "wheels", "cache", "home"):
        (folder / part).mkdir(parents=True)
    (CACHE / "uv").mkdir(parents=True, exist_ok=True)
    shutil.copy2(Path(sys.executable).parent / "uv", folder / "uv")
    shutil.copy2(images.FOLDER / "install.sh", folder)
    shutil.copy2(ENVS / "build.lock", folder)
    for lock in spec.get("locks", []):
        shutil.copy2(ENVS / f"{lock}.lock", folder / "locks")
    if "torch_cpu" in spec.get("locks", []):
        os.link(torch_wheel(log), folder / "wheels" / torch_wheel(log).name)
    authorities = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))
    shutil.copy2(authorities, folder / "authorities.pem")
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or ""
    settings = [
        f"SOURCE_DATE_EPOCH={images.catalogue()['epoch']}",
        "export SSL_CERT_FILE=/opt/build/authorities.pem GIT_SSL_CAINFO=/opt/build/authorities.pem",
        "export UV_CACHE_DIR=/opt/build/cache",
        *([f"export UV_DEFAULT_INDEX='{index}'"] if index else []),
    ]
    write_text(folder / "settings", "\n".join(settings) + "\n")
    write_text(folder / "debs", "\n".join(wanted_debs(name, newest_debs)) + "\n" if spec.get("debs") else "")
    suite = images.catalogue()["bases"]["debian"]["suite"]
    write_text(folder / "sources.list", "\n".join(mirrors(suite)) + "\n")
    write_text(folder / "sources", "".join(f"{s['name']} {s['url']} {s['commit']}\n" for s in spec.get("sources", [])))
    return folder


def wanted_debs(name: str, newest: bool) -> list[str]:
    """Debian packages to ask for: exactly those of envs/<name>.debs, or the image's own list in today's versions."""
    lock = ENVS / f"{name}.debs"
    if newest or not lock.is_file():
        return list(images.spec(name)["debs"])
    return lock.read_text(encoding="utf-8").split()


def torch_wheel(log: Path) -> Path:
    """torch's CPU build, which is on no package index but PyTorch's own; its hash is checked when it is installed."""
    version = re.search(r"torch==(\S+)", (ENVS / "torch_cpu.lock").read_text(encoding="utf-8")).group(1)  # type: ignore[union-attr]
    folder = CACHE / "wheels"
    if found := sorted(folder.glob(f"torch-{version}-cp311-*x86_64.whl")):
        return found[0]
    command = [
        *(
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--dest",
            str(folder),
        ),
        *("--python-version", "3.11", "--platform", "manylinux_2_28_x86_64", f"torch=={version}"),
    ]
    try:
        call(command, log)  # where pip's own settings know a place
    except EngineError:
        call([*command, "--index-url", TORCH_CPU], log)
    return next(folder.glob(f"torch-{version}-cp311-*x86_64.whl"))


def base_of(name: str, local_root: bool, log: Path) -> tuple[str, str, str]:
    """(apptainer's bootstrap agent, what it starts from, how the labels call it)."""
    base = images.spec(name)["base"]
    if base in images.catalogue()["images"]:
        digest = images.check_file(base)
        return "localimage", images.path(base), f"{base}@{digest}"
    source = images.catalogue()["bases"][base]
    if not source.get("digest"):
        raise ConfigError(f"{images.IMAGES}: base '{base}' has no digest; write the one of {source['from']} there")
    if "suite" in source and (local_root or not registry_answers()):
        return "localimage", str(debian_root(source, log)), f"debian {source['suite']} from a package mirror"
    return "docker", f"{source['from'].rsplit(':', 1)[0]}@{source['digest']}", f"{source['from']}@{source['digest']}"


def labels(name: str, base: str) -> dict[str, str]:
    """What verify.py and a reader find inside the image."""
    spec = images.spec(name)
    locks = hashlib.sha256(b"".join((ENVS / f"{lock}.lock").read_bytes() for lock in spec.get("locks", [])))
    return {
        f"{LABEL}.image": name,
        f"{LABEL}.base": base,
        f"{LABEL}.locks": "sha256:" + locks.hexdigest(),
        **{f"{LABEL}.source.{one['name']}": f"{one['url']} {one['commit']}" for one in spec.get("sources", [])},
    }


def record(name: str, digest: str) -> None:
    """Write one digest into images.yaml, leaving the rest of the file as it is.

    Raises:
        ConfigError: the image's entry has no digest line.
    """
    text = images.IMAGES.read_text(encoding="utf-8")
    entry = re.compile(rf'(^  {re.escape(name)}:\n(?:    .*\n|\s*#.*\n)*?    digest: )"?[^"\n]*"?$', re.M)
    changed, count = entry.subn(rf'\g<1>"{digest}"', text)
    if count != 1:
        raise ConfigError(f"{images.IMAGES}: the entry of '{name}' needs one line `digest: \"\"`")
    write_text(images.IMAGES, changed)
    images.catalogue.cache_clear()


def build(name: str, args: argparse.Namespace) -> None:
    """One image, from its .def to a .sif named by its digest."""
    log = WORK / name / "build.log"
    log.unlink(missing_ok=True)
    base = images.spec(name)["base"]
    if base in images.catalogue()["images"] and not images.has(base):
        build(base, args)
    agent, start, called = base_of(name, args.local_root, log)
    before = images.spec(name)["digest"]
    opt = prepare(name, args.newest_debs, log)
    root = WORK / name / "root"
    print(f"{name}: building on {called}", file=sys.stderr)
    remove(root, log)
    command = [
        *("apptainer", "build", "--force", "--sandbox", "--fakeroot"),
        *("--bind", f"{opt.absolute()}:/opt/build", "--bind", f"{(CACHE / 'uv').absolute()}:/opt/build/cache"),
        # Libraries that the .def's test imports write here, as they would in a job.
        *("--bind", f"{(opt / 'home').absolute()}:/cache"),
        *("--build-arg", f"AGENT={agent}", "--build-arg", f"BASE={start}"),
        *(str(root), str(images.FOLDER / f"{name}.def")),
    ]
    # Apptainer unpacks into its temporary folder, and /tmp is often too small.
    temporary = (WORK / name / "tmp").absolute()
    temporary.mkdir(parents=True, exist_ok=True)
    call(command, log, env={**os.environ, "APPTAINER_TMPDIR": str(temporary), "TMPDIR": str(temporary)})
    keep_debs(name, opt, args.newest_debs)
    file = pack.pack(root, WORK / name / f"{name}.sif", labels(name, called), images.catalogue()["epoch"], log)
    digest = images.digest(file)
    target = Path(images.file_name(name, digest))
    file.replace(target)
    record(name, digest)
    remove(root, log)
    said = (
        "new" if not before else "the same bytes as recorded" if before == digest else f"other bytes than {before[:19]}"
    )
    print(f"{name}: {target} ({target.stat().st_size / 1e6:,.0f} MB; {said})", file=sys.stderr)


def keep_debs(name: str, opt: Path, newest: bool) -> None:
    """Compare the Debian packages inside with envs/<name>.debs, or write that file where it is asked for or missing.

    Raises:
        EngineError: a package of the lock is absent or in another version.
    """
    if not images.spec(name).get("debs"):
        return
    lock = ENVS / f"{name}.debs"
    installed = (opt / "debs.installed").read_text(encoding="utf-8")
    if newest or not lock.is_file():
        write_text(lock, installed)
    elif lost := sorted(set(lock.read_text(encoding="utf-8").split()) - set(installed.split())):
        raise EngineError(f"{name}: not installed as {lock} says: {', '.join(lost[:5])}; build with --newest-debs")


def remove(folder: Path, log: Path) -> None:
    """Remove an image's folder; files of other users inside it go through the namespace that made them."""
    if folder.is_dir():
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise EngineError(f"{folder} cannot be removed; see {log}, then remove it by hand")


def main(argv: list[str] | None = None) -> int:
    """Build the images named on the command line."""
    arguments = cli.parser(__doc__)
    arguments.add_argument("names", nargs="+", metavar="NAME", help="images of images.yaml, or all")
    arguments.add_argument("--missing", action="store_true", help="only those whose file is not here")
    arguments.add_argument("--newest-debs", action="store_true", help="Debian packages in today's versions")
    arguments.add_argument("--local-root", action="store_true", help="do not ask a registry, make the Debian root here")

    def step(args: argparse.Namespace) -> None:
        names = list(images.catalogue()["images"]) if args.names == ["all"] else args.names
        for name in names:
            images.spec(name)
        for name in names:
            if not (args.missing and images.has(name)):
                build(name, args)

    return cli.run(step, arguments, argv)


if __name__ == "__main__":
    sys.exit(main())
