"""What ESPnet3 configs name to decode: `_target_: espnet_srupp.inference.Speech2Text`.

It is ESPnet's own class. Whoever imports it from here, as ESPnet3's worker processes
do that build it by this name, knows `encoder: srupp`.
"""

from espnet2.bin.asr_inference import Speech2Text

import espnet_srupp.register  # noqa: F401

__all__ = ["Speech2Text"]
