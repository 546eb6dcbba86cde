"""The corpora, whose modules have `prepare`, which is stage 1, and what they share."""
