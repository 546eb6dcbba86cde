"""The task class that ESPnet3 configs name: `task: espnet_srupp.task.ASRTask`."""

from importlib import import_module

import espnet_srupp.register  # noqa: F401
from espnet_srupp.compat import ASR_TASK


class ASRTask(import_module(ASR_TASK).ASRTask):
    """ESPnet's own ASR task with `srupp` among its encoders.

    A class of this module and not an alias: whoever unpickles it, as a spawned
    training process does, imports the registration with it.
    """
