"""Pods: groups of actors with a thread or a process each, declared once, wired at once, restarted as a whole.

`Troupe` is the manifest, `Pod` a line of it. A kubelet looks after the pods of a troupe, and service handles reach them
whatever happens to them. Below it is the runtime of all actors: pods are loops, and a kubelet is a supervisor.
"""

from greenroom.errors import (
    ConnectTimeout,
    Fatal,
    HandleHeld,
    ManifestError,
    PodGone,
    RingFull,
    TroupeEnding,
    TroupeFailed,
)
from greenroom.pods.kubelet.heartbeat import Heartbeat
from greenroom.pods.kubelet.parking import Park
from greenroom.pods.kubelet.podrecord import PodPhase, PodStatus
from greenroom.pods.manifest.handles import Handles, Mates
from greenroom.pods.manifest.pod import Pod
from greenroom.pods.manifest.settings import Buffers, Bursts, KubeletConfig, RestartPolicy, ShutdownMode, ThreadModel
from greenroom.pods.service.handle import ServiceHandle
from greenroom.pods.troupe import MainLoop, Troupe

__all__ = [
    "Buffers",
    "Bursts",
    "ConnectTimeout",
    "Fatal",
    "HandleHeld",
    "Handles",
    "Heartbeat",
    "KubeletConfig",
    "MainLoop",
    "ManifestError",
    "Mates",
    "Park",
    "Pod",
    "PodGone",
    "PodPhase",
    "PodStatus",
    "RestartPolicy",
    "RingFull",
    "ServiceHandle",
    "ShutdownMode",
    "ThreadModel",
    "Troupe",
    "TroupeEnding",
    "TroupeFailed",
]
