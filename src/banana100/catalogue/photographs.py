"""Photographs that ship inside packages: candidates for seeds."""

from banana100.catalogue.packaged import PackagedFile

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
