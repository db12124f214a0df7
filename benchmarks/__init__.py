"""Measurements beside the peers. Each module here that has ``cases(lab)`` is one benchmark."""
