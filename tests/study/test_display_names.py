"""What models are called."""

from __future__ import annotations

from slmsafety.params.entries import ModelParams
from slmsafety.study.display_names import named_cards


def test_two_models_of_one_name_have_their_ids_beside_it() -> None:
    models = [ModelParams(id=name, name="Tern", folder=".") for name in ("m1", "m2")]
    cards = named_cards([*models, ModelParams(id="m3", name="Gull", folder=".")])
    assert cards.loc[["m1", "m2", "m3"], "name"].tolist() == ["Tern (m1)", "Tern (m2)", "Gull"]
    assert named_cards(models[:1]).loc["m1", "name"] == "Tern"
