"""
For tests of code that publishes and consumes, and of providers; nothing here is for production or needs pytest.

* of a handler: `deliver()`, `message()`
* of code that publishes: `RecordingPublisherProvider`
* of code that registers consumers: `RecordingConsumerProvider`
* without waiting in real time: `run_virtual()`, `AutojumpLoop`
* of the runtime: `ScriptedSource`, `ScriptedSender`
* of a provider: `messagequeue.testing.conformance` (needs pytest)
"""

from ._autojump import AutojumpLoop, DeadlockError, VirtualRunError, run_virtual
from ._consumers import RecordingConsumerProvider, Registered
from ._deliver import Fate, Outcome, deliver
from ._messages import MessageFields, message
from ._publishers import Published, RecordingPublisher, RecordingPublisherProvider
from ._scripted import Call, ScriptedSender, ScriptedSource

__all__ = [
    "AutojumpLoop",
    "Call",
    "DeadlockError",
    "Fate",
    "MessageFields",
    "Outcome",
    "Published",
    "RecordingConsumerProvider",
    "RecordingPublisher",
    "RecordingPublisherProvider",
    "Registered",
    "ScriptedSender",
    "ScriptedSource",
    "VirtualRunError",
    "deliver",
    "message",
    "run_virtual",
]
