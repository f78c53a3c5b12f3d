"""The SLMs under study: their cards, and how their weights, tokenizers and sentence encoders are loaded."""

import os

# torch's threads spin while they wait for each other by default. On a machine that does anything else that makes them
# several times slower, and it is no faster on an idle one. Read when torch is first imported, hence here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Of a repository without safetensors transformers would ask the hub for a converted copy: bytes of another commit.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
