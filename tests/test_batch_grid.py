"""Grids of runs: what a YAML file asks for, and what is refused before anything runs."""

import json
from dataclasses import replace

import pytest
import small

from rndlib.running import arguments, notebooks, provenance
from rndlib.running.batch import grid
from rndlib.running.parameters import Parameter, UsageError

pytestmark = pytest.mark.tools


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project, in which the test runs."""
    monkeypatch.chdir(small.project(tmp_path))
    return tmp_path


def read(place, text):
    """The cells of a grid of this text."""
    (place / "grid.yaml").write_text(text, encoding="utf-8")
    return grid.read(place / "grid.yaml")


def test_products_lists_and_seeds_are_combined(place):
    cells = read(
        place,
        """
        profile: smoke
        timeout: 60
        runs:
          - notebook: 01
            set: {pause: 0.5}
            product: {rate: [1e-3, 2]}
            list: [{width: 1}, {width: 2, mode: raise}]
            seeds: [0, 3]
          - notebook: 01_judge
            profile: paper
            timeout: 5
        """,
    )
    assert len(cells) == 2 * 2 * 2 + 1
    assert [(c.values["width"], c.values["mode"], c.values["rate"], c.values["seed"]) for c in cells[:4]] == [
        (1, "", 0.001, 0),
        (1, "", 0.001, 3),
        (1, "", 2.0, 0),
        (1, "", 2.0, 3),
    ]
    assert all(c.values["pause"] == 0.5 for c in cells[:-1])
    assert [c.timeout for c in cells] == [60.0] * 8 + [5.0]
    assert cells[5].label == "01_judge pause=0.5 width=2 mode=raise rate=0.001 seeds 3"
    assert cells[-1].values == notebooks.find("01").settings("paper", [])
    assert (cells[-1].profile, cells[-1].label) == ("paper", "01_judge")
    assert len({c.key for c in cells}) == len({c.place(place) for c in cells}) == 9


def test_the_command_of_a_cell_says_all_its_values(place):
    values = {"width": [-3, 64], "rate": [-1e-5, 0.1, 1e300, float("inf")], "mode": ["-x", "a b", "it's"]}
    product = json.dumps(values)
    for cell in read(place, f"runs: [{{notebook: '01', profile: smoke, product: {product}, seeds: 2}}]"):
        asked = arguments.parser().parse_args(cell.command(place))
        assert cell.notebook.settings(asked.profile, map(tuple, asked.overrides)) == cell.values
        assert (asked.name, asked.results, asked.once) == (cell.notebook.name, cell.place(place), True)


@pytest.mark.parametrize("value", ["a, b", "a\nb", 'it\'s "so"'])
def test_a_text_that_no_command_line_can_say_is_refused(value):
    listed = Parameter("names", "list[str]", ["a"], "help")
    with pytest.raises(UsageError, match=r"names = .* cannot be put on a command line"):
        listed.text([value, "x"])


def test_seeds_as_a_number_are_repeats_from_0(place):
    assert [c.values["seed"] for c in read(place, "runs: [{notebook: '01', seeds: 3}]")] == [0, 1, 2]


# Place, value and remedy of each.
WRONG = {
    "[]": ["the grid = []", "is not a mapping"],
    "runs: []": ["runs = []", "is empty", "give one"],
    "profile: smoke": ["runs = None", "is not a list"],
    "run: []": ["run is no key of the grid", "choose one of profile, runs, timeout"],
    "runs: [{}]": ["runs[0]", "no notebook called 'None'", "01_judge"],
    "runs: [3]": ["runs[0]: the run = '3'", "is not a mapping"],
    "runs: [{notebook: nine}]": ["runs[0]", "no notebook called 'nine'", "01_judge"],
    "runs: [{notebook: 01, profile: big}]": ["runs[0]", "no profile 'big'", "paper, smoke"],
    "runs: [{notebook: 01, profile: [smoke]}]": ["runs[0]", "no profile \"['smoke']\"", "paper, smoke"],
    "runs: [{notebook: 01, sweep: 1}]": ["runs[0]: sweep is no key", "product"],
    "runs: [{notebook: 01, product: {hight: [1]}}]": ["runs[0]", "no parameter 'hight'", "width, rate"],
    "runs: [{notebook: 01, product: {width: [1, wide]}}]": ["width = 'wide' is not of type int", "such as 64"],
    "runs: [{notebook: 01, product: {width: [no]}}]": ["width = 'no' is not of type int"],
    "runs: [{notebook: 01, product: {width: [0x10]}}]": ["width = '0x10' is not of type int"],
    "runs: [{notebook: 01, product: {width: [1.5]}}]": ["width = '1.5' is not of type int"],
    "runs: [{notebook: 01, product: {width: [1e3]}}]": ["width = '1e3' is not of type int"],
    "runs: [{notebook: 01, product: {rate: [nan]}}]": ["rate = 'nan' is not of type float"],
    "runs: [{notebook: 01, product: {rate: [~]}}]": ["rate = '~' is not of type float"],
    "runs: [{notebook: 01, product: {width: []}}]": ["product.width = []", "is empty", "give one"],
    "runs: [{notebook: 01, product: {width: 3}}]": ["product.width = '3'", "is not a list"],
    "runs: [{notebook: 01, product: [1]}]": ["product = ['1']", "is not a mapping", "{width: 64}"],
    "runs: [{notebook: 01, product: {rate: [1, 1.0]}}]": ["'01_judge rate=1.0' is there twice"],
    "runs: [{notebook: 01, set: {width: [1]}}]": ["width = ['1'] is not of type int"],
    "runs: [{notebook: 01, set: {mode: {a: 1}}}]": ["mode = {'a': '1'} is not of type str"],
    "runs: [{notebook: 01, list: []}]": ["list = []", "is empty"],
    "runs: [{notebook: 01, list: [3]}]": ["list = '3'", "is not a mapping"],
    "runs: [{notebook: 01, list: [{width: 1}, {width: 1}]}]": ["'01_judge width=1' is there twice"],
    "runs: [{notebook: 01, set: {width: 1}, product: {width: [2]}}]": ["width is set by more than one of"],
    "runs: [{notebook: 01, seeds: 0}]": ["seeds = '0'", "as in 3"],
    "runs: [{notebook: 01, seeds: []}]": ["seeds = []"],
    "runs: [{notebook: 01, seeds: [0, -1]}]": ["seeds = ['0', '-1']"],
    "runs: [{notebook: 01, seeds: [1, 1]}]": ["'01_judge seeds 1' is there twice"],
    "runs: [{notebook: 01, seeds: true}]": ["seeds = 'true'"],
    "runs: [{notebook: 01, seeds: 2, set: {seed: 1}}]": ["seed is set by more than one of"],
    "runs: [{notebook: 01, timeout: 0}]": ["timeout = '0'", "seconds above 0"],
    "timeout: soon\nruns: [{notebook: 01}]": ["timeout = 'soon'", "seconds above 0"],
    "runs: [{notebook: 01}, {notebook: 01_judge, set: {width: 64}}]": ["runs[1]: '01_judge width=64' is there twice"],
    "runs: [{notebook: 01, notebook: 01}]": ["line 1", "a key is there twice"],
    "runs: [{notebook: 01, ? [a] : 1}]": ["is not YAML"],
    "runs: [": ["is not YAML", "mend"],
    "runs: !!python/name:os.system ''": ["runs = ''", "is not a list"],
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_grid_is_refused_with_file_key_value_and_remedy(place, text):
    with pytest.raises(UsageError) as refusal:
        read(place, text)
    message = str(refusal.value)
    assert message.startswith(f"{place / 'grid.yaml'}: ")
    assert "\n" not in message
    for word in WRONG[text]:
        assert word in message


def test_nothing_runs_and_nothing_is_made_for_a_wrong_grid(place):
    (place / "grid.yaml").write_text("runs: [{notebook: '01'}, {notebook: '01', set: {width: big}}]", encoding="utf-8")
    code, out, err = small.call(place, "batch", "grid.yaml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "rndlib: grid.yaml: runs[1]: width = 'big' is not of type int" in err
    assert not (place / "batches").exists()
    assert "name a grid that can be read" in small.call(place, "batch", "other.yaml")[2]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rate", "1e-3", 1e-3),
        ("rate", "1", 1.0),
        ("rate", "'1'", 1.0),
        ("rate", "inf", float("inf")),
        ("width", "010", 10),
        ("width", "+3", 3),
        ("mode", "no", "no"),
        ("mode", "010", "010"),
        ("mode", "2001-01-01", "2001-01-01"),
        ("mode", "12:30", "12:30"),
        ("mode", "~", "~"),
    ],
)
def test_a_value_is_what_it_would_be_on_the_command_line(place, name, text, value):
    (cell,) = read(place, f"runs: [{{notebook: 01, set: {{{name}: {text}}}}}]")
    assert cell.values[name] == value
    assert type(cell.values[name]) is type(value)
    asked = arguments.parser().parse_args(["run", "01", "-p", name, text.strip("'")])
    assert cell.notebook.settings("paper", map(tuple, asked.overrides))[name] == value


@pytest.mark.parametrize(
    ("type_", "given", "value"),
    [
        ("list[float]", ["0.5", "1e-3"], [0.5, 1e-3]),
        ("list[str]", ["silu", "no"], ["silu", "no"]),
        ("list[int]", [], []),
        ("bool", "true", True),
    ],
)
def test_lists_and_switches(place, type_, given, value):
    notebook = replace(notebooks.find("01"), parameters=(Parameter("names", type_, value, "help"),))
    assert grid._value(notebook, "names", given) == value


@pytest.mark.parametrize(
    ("type_", "given"), [("list[str]", ["a, b"]), ("list[int]", "3"), ("bool", "no"), ("str", ["a"])]
)
def test_what_only_looks_like_a_list_or_a_switch_is_refused(place, type_, given):
    default = {"bool": True, "str": ""}.get(type_, [])
    notebook = replace(notebooks.find("01"), parameters=(Parameter("names", type_, default, "help"),))
    with pytest.raises(UsageError, match=r"^names = .*(give|leave out)"):
        grid._value(notebook, "names", given)


def test_a_cell_is_another_after_any_change_that_matters(place, monkeypatch):
    path = place / "notebooks" / "01_judge.ipynb"

    def key():
        (cell,) = read(place, "runs: [{notebook: '01'}]")
        return cell.key

    def cells(change):
        node = json.loads(path.read_text(encoding="utf-8"))
        change(node["cells"][2])
        path.write_text(json.dumps(node), encoding="utf-8")

    first = key()
    cells(lambda cell: cell.update(outputs=[{"output_type": "stream", "name": "stdout", "text": "x"}], metadata={}))
    assert key() == first  # Outputs decide nothing.
    cells(lambda cell: cell.update(source=[*cell["source"], "\n1"]))
    second = key()
    versions = provenance.versions()
    monkeypatch.setattr(provenance, "versions", lambda: {**versions, "numpy": "0"})
    third = key()
    (place / "theory").mkdir()
    monkeypatch.setattr(provenance, "PACKAGE", place)
    (place / "theory" / "module.py").write_text("a = 1")
    fourth = key()
    (place / "theory" / "module.py").write_text("a = 2")
    assert len({first, second, third, fourth, key()}) == 5
