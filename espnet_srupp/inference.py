"""ESPnet's Speech2Text: whoever imports it from here knows `encoder: srupp`.

Model cards do, and ESPnet3's worker processes, to which inference.yaml names it:
`_target_: espnet_srupp.inference.Speech2Text`.
"""

from espnet2.bin.asr_inference import Speech2Text

import espnet_srupp.register  # noqa: F401

__all__ = ["Speech2Text"]
