"""Long recordings: transcribed, joined from utterances, scored by length, drawn."""
