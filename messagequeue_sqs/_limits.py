"""
Every quota of Amazon SQS that client or server relies on; not what a particular queue is set to.

Sources: the service model (botocore `sqs/2012-11-05`), the SQS API Reference and the developer guide pages named beside
each value.  All of them were last checked on 2026-11-30.
"""

from __future__ import annotations

from typing import Final

# Messages.  Guide, "Amazon SQS message quotas"; 1 MiB instead of 256 KiB since August 2025 (botocore 1.40.17).
#: Bytes of body and attributes of one message at most.
MESSAGE_BYTES: Final = 1_048_576
#: Bytes of all messages of one SendMessageBatch at most; the same number, but for their sum.
BATCH_BYTES: Final = 1_048_576
#: Bytes: MaximumMessageSize of a queue that was made before and not changed since.
OLDER_QUEUE_MESSAGE_BYTES: Final = 262_144
#: Bytes: MaximumMessageSize of an SNS topic that was not told otherwise, and of all messages of one PublishBatch; it
#: can be raised to that of SQS.  SNS API Reference, PublishBatch; guide, "Publishing large messages".
TOPIC_MESSAGE_BYTES: Final = 262_144
#: Characters of an SNS topic's name, `.fifo` included, at most.  SNS API Reference, CreateTopic.
TOPIC_NAME_CHARS: Final = 256
#: Bytes: the smallest MaximumMessageSize that a queue may be set to.
QUEUE_MESSAGE_BYTES_MIN: Final = 1_024
#: Seconds.  A message is kept at least this long ...
RETENTION_MIN: Final = 60
#: ... at most this long (14 days) ...
RETENTION_MAX: Final = 1_209_600
#: ... and by default this long (4 days).
RETENTION_DEFAULT: Final = 345_600

# Batches.  API Reference, SendMessageBatch, DeleteMessageBatch, ChangeMessageVisibilityBatch.
#: Entries of one batch at most.
BATCH_ENTRIES: Final = 10
#: Characters of an entry's id, of `[A-Za-z0-9_-]`, at most.
ENTRY_ID_CHARS: Final = 80

# Message attributes.  Guide, "Amazon SQS message metadata".
#: User attributes of one message at most.
ATTRIBUTES: Final = 10
#: Characters of an attribute's name at most.
ATTRIBUTE_NAME_CHARS: Final = 256
#: Characters of an attribute's type, label included, at most.
ATTRIBUTE_TYPE_CHARS: Final = 256
#: Significant digits of a Number at most ...
NUMBER_DIGITS: Final = 38
#: ... and the exponents of ten between which it lies.
NUMBER_EXPONENT_MIN: Final = -128
NUMBER_EXPONENT_MAX: Final = 126

#: Bytes of a payload that are billed as one request.  Pricing page: each 64 KB chunk begun is one.
BILLED_BYTES: Final = 65_536

# Keys of a message.  API Reference, SendMessage: alphanumeric and punctuation, so printable ASCII without the blank.
#: Characters of MessageGroupId and of MessageDeduplicationId at most; at least one.
KEY_CHARS: Final = 128
#: Seconds for which a FIFO queue remembers a deduplication id, deleted messages included.
DEDUPLICATION_WINDOW: Final = 300

# Times.  API Reference, SendMessage, ReceiveMessage, ChangeMessageVisibility.
#: Seconds: DelaySeconds at most.
DELAY_MAX: Final = 900
#: Seconds: VisibilityTimeout at most, and the longest time from receive to delete (12 h).
VISIBILITY_MAX: Final = 43_200
#: Seconds: VisibilityTimeout of a queue that was not told otherwise.
VISIBILITY_DEFAULT: Final = 30
#: Seconds: WaitTimeSeconds of a receive at most.
WAIT_MAX: Final = 20
#: Messages of one receive at most.
RECEIVE_MESSAGES: Final = 10
#: Messages in flight at most, standard and FIFO (20 000 for FIFO before; botocore 1.35.91).
IN_FLIGHT: Final = 120_000

# Queues.  API Reference, CreateQueue, ListQueues, PurgeQueue, TagQueue; guide, "Amazon SQS queue quotas".
#: Characters of a queue's name, `.fifo` included, at most.
QUEUE_NAME_CHARS: Final = 80
#: Queues of one ListQueues page at most.
LIST_PAGE: Final = 1_000
#: Seconds between two purges of one queue at least.
PURGE_INTERVAL: Final = 60
#: Seconds after which the name of a deleted queue can be used again.
REUSE_NAME_AFTER: Final = 60
#: Tags of one queue at most.
TAGS: Final = 50

# Dead letters.  Guide, "Using dead-letter queues"; API Reference, StartMessageMoveTask, ListMessageMoveTasks.
#: maxReceiveCount of a RedrivePolicy: bounds and default.
RECEIVE_COUNT_MIN: Final = 1
RECEIVE_COUNT_MAX: Final = 1_000
RECEIVE_COUNT_DEFAULT: Final = 10
#: Queues in a RedriveAllowPolicy of `byQueue` at most.
REDRIVE_SOURCES: Final = 10
#: Messages a second of a message move task at most.
MOVE_RATE_MAX: Final = 500
#: Tasks of one ListMessageMoveTasks answer at most.
MOVE_TASKS_PAGE: Final = 10
