"""The stages of run.sh: data, tokens, statistics, training, decoding, scoring."""
