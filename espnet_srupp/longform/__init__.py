"""Long recordings: joined from utterances, scored by length, drawn."""
