"""ESPnet's Speech2Text: whoever imports it from here knows `encoder: srupp`.

Model cards do, and ESPnet3's worker processes, to which inference.yaml names it:
`_target_: espnet_srupp.inference.Speech2Text`.
"""

from importlib import import_module

import espnet_srupp.register  # noqa: F401

# after the registration, which keeps ESPnet 202511 from the network
Speech2Text = import_module("espnet2.bin.asr_inference").Speech2Text
