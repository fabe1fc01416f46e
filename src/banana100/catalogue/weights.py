"""Trained weights that metrics download: which file, from where, how big, under what terms.

Facts are those of pyiqa 0.1.16's sources and of the hosts named. Digests are not here but in data/weights.lock.yaml,
written on first fetch; a name that ends in 8 hex digits before its extension promises the start of its sha256.
"""

from dataclasses import dataclass
from typing import Literal

Place = Literal["pyiqa", "checkpoints", "clip"]


@dataclass(frozen=True)
class WeightFile:
    """One file.

    Attributes:
        name: file name, as the code that loads it expects it.
        place: which of the cache places it belongs to.
        url: where it is fetched from.
        megabytes: size, for planning; 0 where it is not known.
        licence: terms of use, as its host states them.
    """

    name: str
    place: Place
    url: str
    megabytes: float
    licence: str


@dataclass(frozen=True)
class Repository:
    """A model repository on Hugging Face, fetched into Hugging Face's own cache layout.

    Attributes:
        name: owner/name.
        files: patterns of the files that are needed.
        megabytes: size, for planning.
        licence: terms of use, as its host states them.
        dataset: whether it is a data set's repository rather than a model's.
    """

    name: str
    files: tuple[str, ...]
    megabytes: float
    licence: str
    dataset: bool = False


Weights = WeightFile | Repository

_IQA = "CC-BY-NC-SA-4.0 (IQA-PyTorch weights; the original authors' terms apply too)"
_MIT = "MIT"
_BSD = "BSD-3-Clause"
_APACHE = "Apache-2.0"
_UNSTATED = "none stated by its authors"

_CLIP_HOST = "https://openaipublic.azureedge.net/clip/models"
_FACE_HOST = "https://github.com/xinntao/facexlib/releases/download"


def _iqa(name: str, megabytes: float = 0, place: Place = "pyiqa") -> WeightFile:
    url = f"https://huggingface.co/chaofengc/IQA-PyTorch-Weights/resolve/main/{name}"
    return WeightFile(name, place, url, megabytes, _IQA)


def _torchvision(name: str, megabytes: float) -> WeightFile:
    return WeightFile(name, "checkpoints", f"https://download.pytorch.org/models/{name}", megabytes, _BSD)


def _clip(name: str, digest: str, megabytes: float) -> WeightFile:
    return WeightFile(name, "clip", f"{_CLIP_HOST}/{digest}/{name}", megabytes, _MIT)


def _face(version: str, name: str, megabytes: float) -> WeightFile:
    return WeightFile(name, "pyiqa", f"{_FACE_HOST}/{version}/{name}", megabytes, _MIT)


def _timm(name: str, megabytes: float, licence: str) -> Repository:
    return Repository(f"timm/{name}", ("model.safetensors",), megabytes, licence)


_MODEL = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors", "*.bin")


def _language_model(name: str, megabytes: float, licence: str) -> Repository:
    return Repository(name, _MODEL, megabytes, licence)


# Backbones
RESNET18 = _torchvision("resnet18-f37072fd.pth", 45)
RESNET34 = _torchvision("resnet34-b627a593.pth", 83)
RESNET50 = _torchvision("resnet50-0676ba61.pth", 98)
VGG16 = _torchvision("vgg16-397923af.pth", 528)
ALEXNET = _torchvision("alexnet-owt-7be5be79.pth", 233)
CLIP_RN50 = _clip("RN50.pt", "afeb0e10f9e5a86da6080e35cf09123aca3b358a0c3e3b6c78a7b63bc04b6762", 244)
CLIP_VIT_B32 = _clip("ViT-B-32.pt", "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af", 338)
CLIP_VIT_L14 = _clip("ViT-L-14.pt", "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836", 890)
TIMM_RESNET50 = _timm("resnet50.a1_in1k", 102, _APACHE)
TIMM_INCEPTION = _timm("inception_resnet_v2.tf_in1k", 224, _APACHE)
TIMM_VGG16 = _timm("vgg16.tv_in1k", 553, _BSD)
TIMM_VIT_B8 = _timm("vit_base_patch8_224.augreg2_in21k_ft_in1k", 346, _APACHE)
SWIN_BASE = WeightFile(
    "swin_base_patch4_window12_384_22kto1k.pth",
    "checkpoints",
    "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_base_patch4_window12_384_22kto1k.pth",
    352,
    _MIT,
)
FACE_DETECTOR = _face("v0.1.0", "detection_Resnet50_Final.pth", 109)
FACE_PARSER = _face("v0.2.2", "parsing_parsenet.pth", 85)

# Heads and whole networks of pyiqa's metrics
AFINE = _iqa("afine.pth", 611)
ARNIQA = _iqa("ARNIQA.pth", 94, "checkpoints")
BRISQUE_MATLAB = _iqa("brisque_matlab.mat", 0.2)
CLIPIQA_PLUS = _iqa("CLIP-IQA+_learned_prompts-603f3273.pth", 0.02)
CLIPIQA_PLUS_RN50 = _iqa("CLIPIQA+_RN50_512-89f5d940.pth", 0.3)
CLIPIQA_PLUS_VIT = _iqa("CLIPIQA+_ViTL14_512-e66488f2.pth", 0.3)
CNNIQA = _iqa("CNNIQA_koniq10k-e6f14c91.pth", 3)
DBCNN = _iqa("DBCNN_KonIQ10k-2de81c0a.pth", 61)
DBCNN_SCNN = _iqa("DBCNN_scnn-7ea73d75.pth", 3)
DISTS = _iqa("DISTS_weights-f5e65c96.pth", 0.01)
FGRESQ = _iqa("FGResQ.pth")
FGRESQ_DEGRADATION = _iqa("FGResQ_Degradation.pth")
HYPERIQA = _iqa("HyperIQA-resnet50-koniq10k-c96c41b1.pth", 110)
LAION_AES = _iqa("sac+logos+ava1-l14-linearMSE.pth", 4)
LIQE = _iqa("liqe_koniq.pt", 605)
LIQE_MIX = _iqa("liqe_mix.pt", 605)
LPIPS = _iqa("LPIPS_v0.1_alex-df73285e.pth", 0.01)
MANIQA = _iqa("ckpt_koniq10k.pt", 543)
MANIQA_KADID = _iqa("ckpt_kadid10k.pt", 543)
MANIQA_PIPAL = _iqa("MANIQA_PIPAL-ae6d356b.pth", 543)
METAIQA = _iqa("Metaiqa_livec.pth", 53)
MUSIQ = _iqa("musiq_koniq_ckpt-e95806b9.pth", 109)
MUSIQ_AVA = _iqa("musiq_ava_ckpt-e8d3f067.pth", 109)
MUSIQ_PAQ2PIQ = _iqa("musiq_paq2piq_ckpt-364c0c84.pth", 109)
MUSIQ_SPAQ = _iqa("musiq_spaq_ckpt-358bb6af.pth", 109)
NIMA = _iqa("NIMA_InceptionV2_ava-b0c77c00.pth", 217)
NIMA_KONIQ = _iqa("NIMA_koniq-250367ae.pth", 217)
NIMA_SPAQ = _iqa("NIMA-spaq-46a7fcb7.pth", 217)
NIMA_VGG16 = _iqa("NIMA_VGG16_ava-dc4e8265.pth", 59)
NIQE = _iqa("niqe_modelparameters.mat", 0.01)
NIQE_MATLAB = _iqa("niqe_matlab_params.mat", 0.01)
ILNIQE = _iqa("ILNIQE_templateModel.mat", 3)
NRQM = _iqa("NRQM_model.mat")
PAQ2PIQ = _iqa("P2P_RoIPoolModel-fit.10.bs.120-ca69882e.pth", 47)
QUALICLIP = _iqa("QualiCLIP.pth", 408)
QUALICLIP_PLUS = {name: _iqa(f"QualiCLIP+_{name}.pth") for name in ("koniq", "clive", "flive", "spaq")}
ARNIQA_REGRESSOR = {
    name: _iqa(f"regressor_{name}.pth", 0.02)
    for name in ("koniq10k", "live", "csiq", "tid2013", "kadid10k", "clive", "flive", "spaq")
}
TOPIQ = _iqa("cfanet_nr_koniq_res50-9a73138b.pth", 173)
TOPIQ_FLIVE = _iqa("cfanet_nr_flive_res50-ded1c74e.pth", 173)
TOPIQ_SPAQ = _iqa("cfanet_nr_spaq_res50-a7f799ac.pth", 173)
TOPIQ_FACE = _iqa("topiq_nr_cgfiqa_res50-0a8b8e4f.pth", 173)
TOPIQ_FACE_V1 = _iqa("topiq_nr_gfiqa_res50-d76bf1ae.pth", 173)
TOPIQ_FACE_SWIN = _iqa("topiq_nr_gfiqa_swin-7bb80a60.pth")
TOPIQ_IAA = _iqa("cfanet_iaa_ava_swin-393b41b4.pth", 440)
TOPIQ_IAA_RES50 = _iqa("cfanet_iaa_ava_res50-3cd62bb3.pth", 294)
TRES = _iqa("tres_koniq-f0502926.pth", 582)
TRES_FLIVE = _iqa("tres_flive-09b0de5b.pth", 582)
UNIQUE = _iqa("UNIQUE.pt", 89)
URANKER = _iqa("URanker_ckpt-450eb36d.pth", 86)
WADIQAM = _iqa("WaDIQaM-NR-koniq-aaffea29.pth", 21)

# Our own
CNNIQA_LIVE = WeightFile(
    "CNNIQA-LIVE.pth",
    "pyiqa",
    "https://raw.githubusercontent.com/lidq92/CNNIQA/5b2e3605b27e55e76b114692555acce9ec62ac9a/models/CNNIQA-LIVE",
    3,
    _UNSTATED,
)

# Models on Hugging Face
CLIP_VIT_B16_HF = Repository(
    "openai/clip-vit-base-patch16", ("config.json", "model.safetensors", "pytorch_model.bin"), 599, _MIT
)
COMPARE2SCORE = _language_model("q-future/Compare2Score", 16_400, _UNSTATED)
COMPARE2SCORE_TOKENIZER = Repository("VQA-CityU/Compare2Score_1", ("*.json", "*.model", "*.txt"), 1, _UNSTATED)
COMPARE2SCORE_ANCHORS = Repository("VQA-CityU/Anchor_images", ("*",), 10, _UNSTATED, dataset=True)
ONE_ALIGN = _language_model("q-future/one-align", 16_400, _MIT)
QREALIGN_MINI = _language_model("q-future/Q-ReAlign-Mini-0.8B", 1_700, _UNSTATED)
QREALIGN_LITE = _language_model("q-future/Q-ReAlign-Lite-4B", 8_500, _UNSTATED)
QREALIGN_PRO = _language_model("q-future/Q-ReAlign-Pro-9B", 18_500, _UNSTATED)
VISUALQUALITY_R1 = _language_model("TianheWu/VisualQuality-R1-7B", 16_600, _MIT)
