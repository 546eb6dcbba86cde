"""SRU++ for ESPnet: attention and fast recurrence as one ASR encoder."""

__version__ = "0.1.0"
