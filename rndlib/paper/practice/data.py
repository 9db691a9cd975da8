"""Real data that comes with packages, split at random. Nothing is downloaded.

diabetes, digits and photographs come with scikit-learn, games with ale-py, and concrete, airfoil and bike sharing with
sklearn-contrib-bde, of which only the files are read: it need not be importable.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "concrete": ("concrete.data", {}),
    "airfoil": ("airfoil.csv", {"delimiter": ",", "skiprows": 1}),
    # Without the row's number and date, and without the two counts that add up to the label.
    "bike sharing": (
        "bike_sharing_dataset/hour.csv",
        {"delimiter": ",", "skiprows": 1, "usecols": [*range(2, 14), 16]},
    ),
}
TABLES = ("diabetes", *_FILES)
_MOST, _MOST_TEST = 10_000, 2_000  # points of a split, at most
_CLASSES = 10
_SIDE = 8  # pixels, of an image
_BRIGHTEST = 16.0  # value of a pixel of a digit
_GAMES = (
    "alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling boxing breakout "
    "centipede chopper_command crazy_climber defender demon_attack double_dunk enduro fishing_derby freeway frostbite "
    "gopher gravitar hero ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge ms_pacman "
    "name_this_game phoenix pitfall pong private_eye qbert riverraid road_runner robotank seaquest skiing solaris "
    "space_invaders star_gunner surround tennis time_pilot tutankham up_n_down venture video_pinball wizard_of_wor "
    "yars_revenge zaxxon"
)
_FRAME = 60  # of a game, a second after it is switched on


@dataclass(frozen=True)
class Split:
    """Training and test points with their labels, in the units that the data come in."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    X_test: Float[np.ndarray, "t d"]
    y_test: Float[np.ndarray, " t"]

    def standardised(self) -> "Split":
        """Columns and labels minus their mean and divided by their standard deviation on the training points."""
        (m, s), (my, sy) = ((of.mean(axis=0), of.std(axis=0)) for of in (self.X, self.y))
        return Split((self.X - m) / s, (self.y - my) / sy, (self.X_test - m) / s, (self.y_test - my) / sy)


@dataclass(frozen=True)
class Shift:
    """Training images of some classes, test images of the same classes, and images from outside, by kind.

    All are centred by the mean training image, and scaled so that the training images have a mean square of 1.
    """

    X: Float[np.ndarray, "n d"]
    digits: Int[np.ndarray, " n"]
    inside: Float[np.ndarray, "t d"]
    outside: Mapping[str, Float[np.ndarray, "t d"]]

    @property
    def tests(self) -> np.ndarray:
        """The images inside, then each kind from outside."""
        return np.concatenate([self.inside, *self.outside.values()])


def table(name: str) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """The columns and the labels of one of `TABLES`."""
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        loaded: Any = load_diabetes(return_X_y=True, scaled=False)
        return loaded
    file, options = _FILES[name]
    try:
        place = distribution("sklearn-contrib-bde").locate_file(f"bde/data/{file}")
    except PackageNotFoundError:
        raise ValueError(
            f"name = {name!r}: its file comes with a package; pip install --no-deps sklearn-contrib-bde"
        ) from None
    rows = np.loadtxt(str(place), **options)
    return rows[:, :-1], rows[:, -1]


def split(name: str, seed: int) -> Split:
    """A random fifth of a table for testing, 2,000 points at most, and of the others at most 10,000 for training."""
    X, y = table(name)
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = min(len(y) // 5, _MOST_TEST)
    test, train = order[:n_test], order[n_test:][:_MOST]
    return Split(X[train], y[train], X[test], y[test])


def digits(seed: int, n_train: int, n_test: int, held_out: int = 3) -> Shift:
    """scikit-learn's images of handwritten digits, without `held_out` classes that are drawn at random.

    Outside are `n_test` images of those classes, and as many patches of scikit-learn's two photographs.
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    loaded: Any = load_digits(return_X_y=True)
    images, classes = loaded
    out = np.isin(classes, rng.permutation(_CLASSES)[:held_out])
    known, unknown = (rng.permutation(np.flatnonzero(where)) for where in (~out, out))
    for name, wanted, available in (("n_train + n_test", n_train + n_test, known), ("n_test", n_test, unknown)):
        if wanted > len(available):
            raise ValueError(f"{name} = {wanted}: there are {len(available)} such digits; give a smaller one")
    train, test = np.split(known[: n_train + n_test], [n_train])
    X, inside, *outside = _scaled(images[train], images[test], images[unknown[:n_test]], _patches(n_test, rng))
    return Shift(
        X, classes[train].astype(np.int64), inside, dict(zip(("held-out digits", "photographs"), outside, strict=True))
    )


def games(
    seed: int, n_train: int, n_test: int
) -> tuple[Float[np.ndarray, "n_train pixels"], Float[np.ndarray, "n_test pixels"]]:
    """Screens of Atari games, no game twice, reduced to 8 by 8 grey pixels: for training, and for testing.

    The games are drawn at random from the 57 of the usual benchmark, which ale-py ships. All screens are centred by the
    mean training screen, and scaled so that the training screens have a mean square of 1.
    """
    names = _GAMES.split()
    if n_train + n_test > len(names):
        raise ValueError(f"n_train + n_test = {n_train + n_test}: there are {len(names)} games; give a smaller one")
    chosen = np.random.default_rng(seed).permutation(names)[: n_train + n_test]
    screens = np.stack([_reduced(_screen(str(name))) for name in chosen])
    train, test = _scaled(screens[:n_train], screens[n_train:])
    return train, test


def _scaled(train: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Images minus the mean of the first, which are scaled to a mean square of 1."""
    centre = train.mean(axis=0)
    scale = np.sqrt(np.mean((train - centre) ** 2))
    return [(images - centre) / scale for images in (train, *others)]


@cache
def _screen(game: str) -> UInt8[np.ndarray, "height width"]:
    """What a game shows when nobody plays it."""
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    console = ALEInterface()
    console.setInt("random_seed", 0)
    console.loadROM(str(roms.get_rom_path(game)))
    for _ in range(_FRAME):
        console.act(0)
    return console.getScreenGrayscale()


def _reduced(screen: UInt8[np.ndarray, "height width"]) -> Float[np.ndarray, " pixels"]:
    """Means over rectangles of nearly equal size."""
    bands = np.array_split(screen, _SIDE)
    return np.array([part.mean() for band in bands for part in np.array_split(band, _SIDE, axis=1)])


def _patches(count: int, rng: np.random.Generator) -> Float[np.ndarray, "count pixels"]:
    """Square patches of the photographs at random places: grey, and as bright as digits can be."""
    from sklearn.datasets import load_sample_images

    photographs: Any = load_sample_images()
    greys = [photograph.mean(axis=2) * (_BRIGHTEST / 255) for photograph in photographs.images]
    patches = []
    for index in range(count):
        grey = greys[index % len(greys)]
        row, column = (int(rng.integers(size - _SIDE + 1)) for size in grey.shape)
        patches.append(grey[row : row + _SIDE, column : column + _SIDE].ravel())
    return np.stack(patches)
