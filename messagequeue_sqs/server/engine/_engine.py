"""Every action of the service model over one broker; no socket, clock, chance or waiting: `now` comes with a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from messagequeue import ConfigurationError
from messagequeue.broker import Broker, Peek

from . import _manage, _receive, _send, _settle, _tags
from ._call import Answer, Call
from ._directory import Directory
from ._errors import INVALID_ACTION, SqsError
from ._handles import Handles
from ._moves import Moves
from ._options import EngineOptions

_SECRET: Final = "sqs:secret"
_PLACE: Final = "sqs:place"


class Engine:
    """
    SQS, as far as it can be decided without waiting.

    Args:
        broker: Has the queues.  Its clock is in seconds since the epoch.
        secret: Keys the seals of receipt handles; a broker that has noted another one keeps that.
        new_id: Draws the ids of move tasks.
        options: How strict to be.

    Raises:
        ConfigurationError: the broker's queues are another account's, or were named for another region.
    """

    def __init__(
        self, broker: Broker, *, secret: bytes, new_id: Callable[[], str], options: EngineOptions | None = None
    ) -> None:
        self.options = options or EngineOptions()
        self.broker = broker
        self._check_place()
        self._directory = Directory(broker, self.options)
        self._moves = Moves(self._directory, new_id)
        self._handles = Handles(self._noted(secret))
        self._actions = self._table(self._handles)

    def _check_place(self) -> None:
        """ARNs are kept, and topics are named by region: neither may change under queues that exist."""
        place, noted = f"{self.options.account} {self.options.region}", self.broker.note(_PLACE)
        if noted is None:
            self.broker.remember(_PLACE, place)
        elif noted != place:
            account, region = noted.split()
            raise ConfigurationError(
                f"these queues are of account {account} and region {region}, not of {self.options.account} and "
                f"{self.options.region}: give the server those, or another data folder"
            )

    def _noted(self, secret: bytes) -> bytes:
        noted = self.broker.note(_SECRET)
        if noted is not None:
            return bytes.fromhex(noted)
        self.broker.remember(_SECRET, secret.hex())
        return secret

    def _table(self, handles: Handles) -> dict[str, Callable[[float, Call], Answer]]:
        directory, moves = self._directory, self._moves
        return {
            "AddPermission": partial(_tags.add_permission, directory),
            "CancelMessageMoveTask": moves.cancel,
            "ChangeMessageVisibility": partial(_settle.change_visibility, directory, handles),
            "ChangeMessageVisibilityBatch": partial(_settle.change_visibility_batch, directory, handles),
            "CreateQueue": partial(_manage.create_queue, directory),
            "DeleteMessage": partial(_settle.delete_message, directory, handles),
            "DeleteMessageBatch": partial(_settle.delete_message_batch, directory, handles),
            "DeleteQueue": partial(_manage.delete_queue, directory),
            "GetQueueAttributes": partial(_manage.get_queue_attributes, directory),
            "GetQueueUrl": partial(_manage.get_queue_url, directory),
            "ListDeadLetterSourceQueues": partial(_manage.list_dead_letter_sources, directory),
            "ListMessageMoveTasks": moves.list,
            "ListQueueTags": partial(_tags.list_queue_tags, directory),
            "ListQueues": partial(_manage.list_queues, directory),
            "PurgeQueue": partial(_manage.purge_queue, directory),
            "ReceiveMessage": partial(_receive.receive_message, directory, handles),
            "RemovePermission": partial(_tags.remove_permission, directory),
            "SendMessage": partial(_send.send_message, directory),
            "SendMessageBatch": partial(_send.send_message_batch, directory),
            "SetQueueAttributes": partial(_manage.set_queue_attributes, directory),
            "StartMessageMoveTask": moves.start,
            "TagQueue": partial(_tags.tag_queue, directory),
            "UntagQueue": partial(_tags.untag_queue, directory),
        }

    @property
    def actions(self) -> frozenset[str]:
        return frozenset(self._actions)

    def handle(self, now: float, call: Call) -> Answer:
        """
        Do what *call* asks for.

        Returns:
            The members of the answer; None where the action has none; a `Poll` where a receive may wait.

        Raises:
            SqsError: the request is refused, and nothing changed.
        """
        action = self._actions.get(call.action)
        if action is None:
            raise SqsError(INVALID_ACTION, f"The action {call.action} is not valid for this endpoint.")
        return action(now, call)

    def opened(self, receipt_handle: str) -> str | None:
        """Return the broker's handle inside of a receipt handle; None where it is not one of ours."""
        return self._handles.open(receipt_handle)

    def disorder(self, shuffle: Callable[[list[Any]], None] | None) -> None:
        """Have *shuffle* put the messages of standard queues out of order at every receive; None: as before."""
        self._directory.shuffle = shuffle

    def next_due(self) -> float | None:
        """Return when `step()` is to be called, whatever requests come; None: there is no need."""
        return self._moves.next_due()

    def step(self, now: float) -> None:
        """Carry on with what runs in the background."""
        self._moves.step(now)

    def peek(self, now: float, queue: str, region: str | None = None) -> Iterator[Peek]:
        """
        Yield the messages of a queue without receiving any: name, URL or ARN of *queue*.

        Raises:
            SqsError: there is none.
        """
        found = self._directory.by_arn(now, queue)
        if found is None:
            call = Call("Peek", {"QueueUrl": queue}, region or self.options.region, "")
            found = self._directory.find(now, call)
        return found.queue.peek(now)
