"""What rndlib asks for, by extra, and what of it is installed."""

import re
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata

FORM = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[\w,-]+)\])?(?:>=(?P<least>[\d.]+))?(?:,?<[\d.]+)?")
EXTRA = re.compile(r"""extra == ['"]([\w-]+)['"]""")


def extras() -> dict[str | None, dict[str, str]]:
    """Extra (None for the library alone) to package to least version; an extra has those that it names in turn.

    Raises
    ------
    metadata.PackageNotFoundError: rndlib is not installed.
    """
    own: dict[str | None, dict[str, str]] = {None: {}}
    parts: dict[str, list[str]] = {}
    for line in metadata.requires("rndlib") or []:
        wanted, _, condition = line.partition(";")
        marked = EXTRA.search(condition)
        extra = marked[1] if marked else None
        found = FORM.match(wanted.replace(" ", ""))
        assert found, f"{line!r} is not in the form that pyproject.toml keeps to"
        if found["name"] == "rndlib" and extra:
            parts.setdefault(extra, []).extend(found["extras"].split(","))
            own.setdefault(extra, {})
        else:
            own.setdefault(extra, {})[found["name"]] = found["least"] or "0"
    return {extra: _whole(extra, own, parts) for extra in own}


def lacking(packages: dict[str, str]) -> list[str]:
    """What is not installed or too old among packages with their least versions, a phrase each."""
    phrases = []
    for name, least in packages.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            phrases.append(f"{name} is not installed")
            continue
        if _numbers(version) < _numbers(least):
            phrases.append(f"{name} {version} is older than {least}")
    return phrases


def installed(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those that are installed, in order of their names, without what tells builds apart (+cpu)."""
    versions = {}
    for name in sorted(packages):
        with suppress(metadata.PackageNotFoundError):
            versions[re.sub(r"[-_.]+", "-", name).lower()] = metadata.version(name).partition("+")[0]
    return versions


def _whole(extra: str | None, own: dict[str | None, dict[str, str]], parts: dict[str, list[str]]) -> dict[str, str]:
    whole = dict(own[extra])
    for part in parts.get(extra or "", []):
        whole |= _whole(part, own, parts)
    return whole


def _numbers(version: str) -> list[int]:
    """The release of a version: 2.13.0+cpu and 2.13.0rc1 are [2, 13, 0]."""
    return [int(part) for part in re.split(r"[^\d.]", version)[0].split(".") if part]
