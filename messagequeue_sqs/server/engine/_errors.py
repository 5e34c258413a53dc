"""The errors that SQS answers with: their codes in both protocols, their status, and the sentences that recur."""

from __future__ import annotations

from dataclasses import dataclass

_SQS = "com.amazonaws.sqs#"
_CORAL = "com.amazon.coral.service#"
_PREFIX = "AWS.SimpleQueueService."


@dataclass(frozen=True, slots=True)
class Kind:
    """
    One error of the API.

    Attributes:
        code: In the query protocol, and in the header that JSON answers carry for older clients.
        type: In JSON answers.
        status: Of the HTTP answer.
        sender: The request is at fault, not the server.
    """

    code: str
    type: str
    status: int = 400
    sender: bool = True


# Recorded answers say which codes have the prefix, and which types are the service's own.
INVALID_PARAMETER = Kind("InvalidParameterValue", _CORAL + "InvalidParameterValueException")
MISSING_PARAMETER = Kind("MissingParameter", _CORAL + "MissingRequiredParameterException")
INVALID_ATTRIBUTE_NAME = Kind("InvalidAttributeName", _SQS + "InvalidAttributeName")
INVALID_ATTRIBUTE_VALUE = Kind("InvalidAttributeValue", _SQS + "InvalidAttributeValue")
INVALID_CONTENTS = Kind("InvalidMessageContents", _SQS + "InvalidMessageContents")
INVALID_HANDLE = Kind("ReceiptHandleIsInvalid", _SQS + "ReceiptHandleIsInvalid", 404)
QUEUE_EXISTS = Kind("QueueAlreadyExists", _SQS + "QueueNameExists")
RESOURCE_NOT_FOUND = Kind("ResourceNotFoundException", _SQS + "ResourceNotFoundException", 404)
OVER_LIMIT = Kind("OverLimit", _SQS + "OverLimit", 403)
NO_QUEUE = Kind(_PREFIX + "NonExistentQueue", _SQS + "QueueDoesNotExist")
DELETED_RECENTLY = Kind(_PREFIX + "QueueDeletedRecently", _SQS + "QueueDeletedRecently")
PURGE_IN_PROGRESS = Kind(_PREFIX + "PurgeQueueInProgress", _SQS + "PurgeQueueInProgress", 403)
EMPTY_BATCH = Kind(_PREFIX + "EmptyBatchRequest", _SQS + "EmptyBatchRequest")
TOO_MANY_ENTRIES = Kind(_PREFIX + "TooManyEntriesInBatchRequest", _SQS + "TooManyEntriesInBatchRequest")
IDS_NOT_DISTINCT = Kind(_PREFIX + "BatchEntryIdsNotDistinct", _SQS + "BatchEntryIdsNotDistinct")
INVALID_ENTRY_ID = Kind(_PREFIX + "InvalidBatchEntryId", _SQS + "InvalidBatchEntryId")
BATCH_TOO_LONG = Kind(_PREFIX + "BatchRequestTooLong", _SQS + "BatchRequestTooLong")
UNSUPPORTED = Kind(_PREFIX + "UnsupportedOperation", _SQS + "UnsupportedOperation")
INVALID_ACTION = Kind("InvalidAction", _CORAL + "UnknownOperationException")
MALFORMED = Kind("MalformedInput", _CORAL + "SerializationException")
THROTTLED = Kind("RequestThrottled", _SQS + "RequestThrottled", 403)
INTERNAL = Kind("InternalFailure", _CORAL + "InternalFailure", 500, sender=False)
UNAVAILABLE = Kind("ServiceUnavailable", _CORAL + "ServiceUnavailableException", 503, sender=False)
ACCESS_DENIED = Kind("AccessDenied", _CORAL + "AccessDeniedException", 403)
UNKNOWN_KEY = Kind("InvalidClientTokenId", _CORAL + "UnrecognizedClientException", 403)
BAD_SIGNATURE = Kind("SignatureDoesNotMatch", _CORAL + "InvalidSignatureException", 403)
INCOMPLETE_SIGNATURE = Kind("IncompleteSignature", _CORAL + "IncompleteSignatureException", 400)


class SqsError(Exception):
    """A request that is refused; `kind` says how the wire puts it, the text is for people."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def invalid(message: str) -> SqsError:
    return SqsError(INVALID_PARAMETER, message)


def bad_value(value: object, name: str, reason: str) -> SqsError:
    return SqsError(INVALID_PARAMETER, f"Value {value} for parameter {name} is invalid. Reason: {reason}")


def missing(name: str) -> SqsError:
    return SqsError(MISSING_PARAMETER, f"The request must contain the parameter {name}.")


def no_queue() -> SqsError:
    return SqsError(NO_QUEUE, "The specified queue does not exist.")


def bad_handle(handle: str) -> SqsError:
    return SqsError(INVALID_HANDLE, f'The input receipt handle "{handle}" is not a valid receipt handle.')
