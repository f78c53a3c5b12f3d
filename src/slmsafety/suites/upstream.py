"""Where the suites' files come from: repositories, pinned revisions and the sha256 of what is there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Upstream:
    """A file at a pinned commit of a public repository, and the sha256 published for it ("" where it is not known)."""

    repository: str
    commit: str
    file: str
    sha256: str

    @property
    def url(self) -> str:
        """The address of the raw file."""
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.file}"


@dataclass(frozen=True)
class HubFiles:
    """A data set of the Hugging Face hub: its id, the revision to take, and its files in their order."""

    repository: str
    revision: str
    files: tuple[str, ...]


UPSTREAM = {
    "harmbench": Upstream(
        "centerforaisafety/HarmBench",
        "8e1604d1171fe8a48d8febecd22f600e462bdcdd",
        "data/behavior_datasets/harmbench_behaviors_text_all.csv",
        "8d81accedd38eaaf8b760618622bb888417d1fd0c86eba65c427a16f1cbb4afc",
    ),
    "sst": Upstream(
        "bertiev/SimpleSafetyTests",
        "d7aee9a9422a5a5488f478fd79c2479c891c0f3b",
        "SimpleSafetyTests%20-%20test%20cases.csv",
        "6d95a1301e0d0f3a3c4cf5392f4afff11ad6e3066f95d23aaa138d44aedf986c",
    ),
    "xstest": Upstream(
        "paul-rottger/exaggerated-safety",
        "d7bb5bd738c1fcbc36edd83d5e7d1b71a3e2d84d",
        "xstest_prompts.csv",
        "11783fb294ed017473ee53c207d71f2161c7672c8d0b037501e78387f801cb5a",
    ),
}

# The default configuration of AirBench's data card at this revision; its order is HELM's row order. Two files hold two
# level-3 categories each, so that 43 files and 43 distinct level-3 names stand for 45 categories.
_AIRBENCH = (*map(str, range(1, 39)), "3940", "4142", "43", "44", "45")
HUB = {
    "airbench": HubFiles(
        "stanford-crfm/air-bench-2024",
        "976d9fbb0f52bce704dcbef5bd7a2652e65f2a21",
        tuple(f"category_{number}.csv" for number in _AIRBENCH),
    ),
    # Not pinned: no revision is published for the paper's copy. The loader checks rows and levels instead.
    "salad": HubFiles("OpenSafetyLab/Salad-Data", "main", ("base_set.json",)),
}

_BBQ_SHA256 = {
    "Age": "46e805b3fc2d8cbd26eeb8e8430d98cf7b2dc9c83574ff3674e8ce4f0fca2a60",
    "Disability_status": "375d40d9b71f056150264445ec189b13934998f3f49a1e311aa7578eb3b45e5f",
    "Gender_identity": "",
    "Nationality": "a583e74666aec0341ded8aa3983e7cad694eb24de72c254d28b2df3035720090",
    "Physical_appearance": "e48d7e13508565f4801574e611043470c25c95a0a62af3699cb5ee7cb02608fb",
    "Race_ethnicity": "",
    "Race_x_SES": "",
    "Race_x_gender": "",
    "Religion": "cb9555f9f3454a52cd2df85956b59bd7fcca5aa922c8527693b1164d08417616",
    "SES": "",
    "Sexual_orientation": "2c71036b9e7584fe589c42aef32c1a42bc01b9a5e9b1b8704342630cdb08cefd",
}
# HELM takes BBQ's files in this order from the branch `main`; the commit is one of that branch.
BBQ = tuple(
    Upstream("nyu-mll/BBQ", "bea11bd97d79217245b5871acd247b9d6eb24598", f"data/{category}.jsonl", sha256)
    for category, sha256 in _BBQ_SHA256.items()
)
