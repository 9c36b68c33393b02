"""Build container images from their .def, their hashed locks and a base given by digest.

Each image is made as a folder by `apptainer build`, then packed into a .sif whose bytes depend on nothing but the
folder's content (see pack.py). Its digest goes into images.yaml and, shortened, into the file's name, which rules use.
Where a digest is recorded already, other bytes are refused, unless --record (or --newest-debs) asks for them.

The root of all images is Debian: from the registry, at the digest in images.yaml, or, where no registry answers, made
by mmdebstrap from the packages' mirror that this machine uses. Which of the two, the image's labels say.

examples:
  containers/build.sh base tables          these two, which must come out as recorded
  containers/build.sh --missing all        whatever is not here yet, or was made from another base or other locks
  containers/build.sh --record ocr         after a change of its lock, its .def or its base: take what comes out
  containers/build.sh --newest-debs ocr    with what Debian's mirror has today, rewriting envs/<image>.debs
"""

import argparse
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from containers import debian, pack
from containers.debian import CACHE
from containers.pack import call
from scripts.lib import cli, images
from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.files import write_text

WORK = images.FOLDER / ".build"
ENVS = Path("envs")
LABEL = "org.text-in-video"
TORCH_CPU = "https://download.pytorch.org/whl/cpu"
AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
"""Where Debian and Red Hat keep the certificates of authorities, should Python name no file."""


@contextmanager
def alone() -> Iterator[None]:
    """One build at a time in this folder: a second one waits, as do what it writes there and in images.yaml."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another build is running in {WORK}: waiting for it", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            print(f"{WORK} has no locks ({error.strerror}): start no second build meanwhile", file=sys.stderr)
        images.catalogue.cache_clear()  # it may have recorded a digest
        pack.HELD.append(file.fileno())
        try:
            yield
        finally:
            pack.HELD.remove(file.fileno())


def prepare(name: str, newest_debs: bool, log: Path) -> Path:
    """The folder that is bound at /opt/build: tools, locks, and where to get packages. Holds this machine's settings,
    so it is never inside the image, others cannot read them, and it goes when the image is built."""
    spec = images.spec(name)
    folder = WORK / name / "opt"
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
    known = authorities()
    (folder / "authorities.pem").write_bytes(known)
    private(folder / "settings", settings(bool(known)))
    write_text(folder / "debs", "\n".join(wanted_debs(name, newest_debs)) + "\n" if spec.get("debs") else "")
    suite = images.catalogue()["bases"]["debian"]["suite"]
    private(folder / "sources.list", debian.mirrors(suite))
    write_text(folder / "sources", "".join(f"{s['name']} {s['url']} {s['commit']}\n" for s in spec.get("sources", [])))
    return folder


def settings(certificates: bool) -> list[str]:
    """What install.sh reads first. The index may be an address with a password."""
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL")
    known = "SSL_CERT_FILE=/opt/build/authorities.pem GIT_SSL_CAINFO=/opt/build/authorities.pem"
    return [
        f"SOURCE_DATE_EPOCH={images.catalogue()['epoch']}",
        "export UV_CACHE_DIR=/opt/build/cache",
        *([f"export {known}"] if certificates else []),
        *([f"export UV_DEFAULT_INDEX={shlex.quote(index)}"] if index else []),
    ]


def private(file: Path, lines: list[str]) -> None:
    """Write a new file that only its owner can read."""
    file.touch(0o600)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def authorities() -> bytes:
    """The certificates that this machine trusts, such as its company's; none where it says nothing of its own."""
    files = filter(None, (ssl.get_default_verify_paths().cafile, *AUTHORITIES))
    return next((Path(file).read_bytes() for file in files if Path(file).is_file()), b"")


def locked_debs(name: str, newest: bool) -> list[str] | None:
    """envs/<name>.debs, or None where today's versions are taken: they are asked for, or nothing is locked yet."""
    lock = ENVS / f"{name}.debs"
    if newest or not images.spec(name).get("debs") or not lock.is_file():
        return None
    return lock.read_text(encoding="utf-8").split()


def wanted_debs(name: str, newest: bool) -> list[str]:
    """Debian packages to ask for: exactly those of envs/<name>.debs, or the image's own list in today's versions."""
    locked = locked_debs(name, newest)
    return list(images.spec(name)["debs"]) if locked is None else locked


def torch_wheel(log: Path) -> Path:
    """torch's CPU build, which is on no package index but PyTorch's own; its hash is checked when it is installed."""
    version = re.search(r"torch==(\S+)", (ENVS / "torch_cpu.lock").read_text(encoding="utf-8")).group(1)  # type: ignore[union-attr]
    folder = CACHE / "wheels"
    if found := sorted(folder.glob(f"torch-{version}-cp311-*x86_64.whl")):
        return found[0]
    wheel_of = ["--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *wheel_of, "--dest", str(folder)]
    command += [f"torch=={version}"]
    try:
        call(command, log)  # where pip's own settings know a place
    except EngineError:
        call([*command, "--index-url", TORCH_CPU], log)
    return next(folder.glob(f"torch-{version}-cp311-*x86_64.whl"))


def base_of(name: str, local_root: bool, log: Path) -> tuple[str, str, str]:
    """(apptainer's bootstrap agent, what it starts from, how the labels call it)."""
    base, names = images.spec(name)["base"], base_names(name)
    if base in images.catalogue()["images"]:
        images.check_file(base)
        return "localimage", images.path(base), names[0]
    source = images.catalogue()["bases"][base]
    if "suite" in source and (local_root or not debian.registry_answers()):
        return "localimage", str(debian.make_root(source, log)), names[1]
    if not source["digest"]:
        raise ConfigError(f"{images.IMAGES}: base '{base}' has no digest; write the one of {source['from']} there")
    return "docker", f"{source['from'].rsplit(':', 1)[0]}@{source['digest']}", names[0]


def base_names(name: str) -> list[str]:
    """How the labels may call an image's base: Debian is the same release from the registry or from a mirror."""
    base = images.spec(name)["base"]
    if base in images.catalogue()["images"]:
        return [f"{base}@{images.spec(base)['digest']}"]
    source = images.catalogue()["bases"][base]
    mirrored = [f"debian {source['suite']} from a package mirror"] if "suite" in source else []
    return [f"{source['from']}@{source['digest']}", *mirrored]


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


def labels_for(name: str, found: dict[str, str]) -> dict[str, str]:
    """What an image's labels should be, given those ``found`` in it: they say which of its bases it stands on."""
    base = found.get(f"{LABEL}.base", "")
    names = base_names(name)
    return labels(name, base if base in names else names[0])


def missing(name: str) -> bool:
    """Whether the image is not here, or was made from another base, other locks or other sources than today's."""
    if not images.has(name):
        return True
    found = pack.read_labels(Path(images.path(name)))
    return not labels_for(name, found).items() <= found.items()


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
    """One image, from its .def to a .sif named by its digest.

    Raises:
        EngineError: a step failed, or other bytes came out than are recorded.
    """
    base = images.spec(name)["base"]
    if base in images.catalogue()["images"] and missing(base):
        build(base, args)
    folder = WORK / name
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    # What a killed build of this image has left.
    for left in [folder / "opt", folder / "root", folder / "tmp", *folder.glob("build-temp-*")]:
        remove(left)
    agent, start, called = base_of(name, args.local_root, log)
    print(f"{name}: building on {called}", file=sys.stderr)
    try:
        opt = prepare(name, args.newest_debs, log)
        run_apptainer(name, agent, start, log)
        debs = (opt / "debs.installed").read_text(encoding="utf-8")
        check_debs(name, debs, args.newest_debs)
        file = pack.pack(
            folder / "root", folder / f"{name}.sif", labels(name, called), images.catalogue()["epoch"], log
        )
    finally:
        for made in ("opt", "root", "tmp"):
            with suppress(EngineError):  # an error of the build itself says more; the next build tries again
                remove(folder / made)
    accept(name, file, debs, args)


def run_apptainer(name: str, agent: str, start: str, log: Path) -> None:
    """From the .def to the folder `root`.

    Raises:
        EngineError: it failed.
    """
    opt, root, temporary = ((WORK / name / part).absolute() for part in ("opt", "root", "tmp"))
    command = [
        *("apptainer", "build", "--force", "--sandbox", "--fakeroot"),
        *("--bind", f"{opt}:/opt/build", "--bind", f"{(CACHE / 'uv').absolute()}:/opt/build/cache"),
        # Libraries that the .def's test imports write here, as they would in a job.
        *("--bind", f"{opt / 'home'}:/cache"),
        *("--build-arg", f"AGENT={agent}", "--build-arg", f"BASE={start}"),
        *(str(root), str(images.FOLDER / f"{name}.def")),
    ]
    # Apptainer unpacks into its temporary folder, and /tmp is often too small.
    temporary.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "APPTAINER_TMPDIR": str(temporary), "TMPDIR": str(temporary)}
    # Root in a container sets it to run images; packages could not give their files to groups under it.
    env.pop("APPTAINER_NO_PRIVS", None)
    try:
        call(command, log, env=env)
    except EngineError as error:
        hint = "; if the registry is at fault, --local-root makes the base from a package mirror"
        raise EngineError(f"{error}{hint if agent == 'docker' else ''}") from None


def accept(name: str, file: Path, debs: str, args: argparse.Namespace) -> None:
    """Take a built .sif, and record its digest where none is or a new one is asked for.

    Raises:
        EngineError: it is not what is recorded, and --record is not given; the file stays where it is.
    """
    before, digest = images.spec(name)["digest"], images.digest(file)
    if before and before != digest and not (args.record or args.newest_debs):
        raise EngineError(
            f"{name}: other bytes ({digest[:19]}) than {images.IMAGES} records ({before[:19]}); kept as {file}; "
            f"if they are meant to differ, run containers/build.sh --record {name}"
        )
    if images.spec(name).get("debs") and locked_debs(name, args.newest_debs) is None:
        write_text(ENVS / f"{name}.debs", debs)
    target = Path(images.file_name(name, digest))
    file.replace(target)
    if before != digest:
        record(name, digest)
    said = "new" if not before else "the same bytes as recorded" if before == digest else f"no longer {before[:19]}"
    print(f"{name}: {target} ({target.stat().st_size / 1e6:,.0f} MB; {said})", file=sys.stderr)


def check_debs(name: str, installed: str, newest: bool) -> None:
    """Compare the Debian packages inside with envs/<name>.debs, if they were to be those.

    Raises:
        EngineError: a package of the lock is absent or in another version.
    """
    if lost := sorted(set(locked_debs(name, newest) or ()) - set(installed.split())):
        lock = ENVS / f"{name}.debs"
        raise EngineError(f"{name}: not installed as {lock} says: {', '.join(lost[:5])}; build with --newest-debs")


def remove(folder: Path) -> None:
    """Remove a folder of a build, with what users of its namespace own in there.

    Raises:
        EngineError: it is still there.
    """
    if folder.is_dir():
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists() and shutil.which("unshare"):
            subprocess.run(["unshare", "--map-auto", "--map-root-user", "rm", "-rf", str(folder)], check=False)
        if folder.exists():
            raise EngineError(f"{folder} cannot be removed: it holds files of other users; remove it as root")


def main(argv: list[str] | None = None) -> int:
    """Build the images named on the command line."""
    arguments = cli.parser(__doc__)
    arguments.add_argument("names", nargs="+", metavar="NAME", help="images of images.yaml, or all")
    arguments.add_argument(
        "--missing", action="store_true", help="only those that are not here or have another base or other locks"
    )
    arguments.add_argument("--record", action="store_true", help="take and record what comes out, whatever is recorded")
    arguments.add_argument(
        "--newest-debs", action="store_true", help="Debian packages in today's versions; implies --record"
    )
    arguments.add_argument("--local-root", action="store_true", help="do not ask a registry, make the Debian root here")

    def step(args: argparse.Namespace) -> None:
        names = list(images.catalogue()["images"]) if args.names == ["all"] else args.names
        for name in names:
            images.spec(name)
        for program in ("apptainer", "mksquashfs"):
            pack.need(program)  # now, and not after minutes
        with alone():
            for name in names:
                if not args.missing or missing(name):
                    build(name, args)

    return cli.run(step, arguments, argv)


if __name__ == "__main__":
    sys.exit(main())
