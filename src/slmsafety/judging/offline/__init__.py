"""The judge `offline`: a small fitted model, no key and no network."""
