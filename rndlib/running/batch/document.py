"""YAML without its traps: `1e-3` is a number, `no` and `010` are texts, and a key that stands twice is an error."""

import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from rndlib.running.parameters import UsageError


class _Loader(yaml.SafeLoader):
    """The core types of YAML 1.2, and no others."""

    yaml_implicit_resolvers: ClassVar = {}


for _tag, _form, _starts in (
    ("bool", r"true|false|True|False|TRUE|FALSE", "tfTF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.inf)|\.nan", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_form})$"), list(_starts))


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    names = [key.value for key, _ in node.value]
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or names.count(key.value) > 1:
            line = key.start_mark.line + 1
            raise UsageError(f"line {line}: {key.value!r}: a key that is there twice, or is no text: leave it out")
    return {key.value: loader.construct_object(value, deep=True) for key, value in node.value}


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read(path: Path) -> Any:
    """What a YAML file says, keys as texts.

    Raises
    ------
    UsageError: there is no such file, it is not YAML, or a mapping has a key twice.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise UsageError(f"{error.strerror}: name a grid that can be read") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"is not YAML ({said}): mend that place") from error
