"""The corpora: each module has `prepare`, which is stage 1."""
