"""
What every fault of SQS, S3 and of their client means; not which of this library's errors it becomes (the caller's).

One table by the service's error codes, one by the class names of the SDK's exceptions, so that nothing here imports the
SDK.  Codes are compared, never texts.

Sources: the service model's errors; API Reference, "Common error types"; botocore `exceptions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from messagequeue._errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Fault:
    """
    What a fault means.

    Attributes:
        code: Its kind.
        retryable: The same call may succeed later, without a change by the caller.
        fatal: A consumer that asks again gets the same, until somebody changes the queue or its permissions.
        advice: What to do about it, or "".
        quote: The service's own words may stand in an error text: they hold no body, no key and no signature.
    """

    code: ErrorCode
    retryable: bool = False
    fatal: bool = False
    advice: str = ""
    quote: bool = True


class CallError(Exception):
    """
    A call failed as a whole; `__cause__` is the SDK's own exception.  Its text holds neither body nor credential.

    Attributes:
        fault: What it means.
        name: The service's error code or the exception's class name.
    """

    def __init__(self, text: str, /, *, fault: Fault, name: str) -> None:
        super().__init__(text)
        self.fault = fault
        self.name = name

    @property
    def origin(self) -> BaseException:
        """The SDK's own exception, for `__cause__`; this one where there is none."""
        return self.__cause__ or self


_MISSING = Fault(
    ErrorCode.NOT_FOUND,
    fatal=True,
    advice="the queue must exist in this account and region: create it, or correct the topic",
)
_DENIED = Fault(ErrorCode.ACCESS_DENIED, fatal=True, advice="grant the action on it to this identity")
_UNKNOWN_KEYS = Fault(
    ErrorCode.CREDENTIALS,
    fatal=True,
    advice="the AWS credentials, or the region they sign for, are not accepted: check the credential chain",
    quote=False,
)
# Not fatal: a refreshed session goes on with new ones.
_STALE_KEYS = Fault(
    ErrorCode.CREDENTIALS, retryable=True, advice="temporary credentials ran out: refresh them", quote=False
)
_NO_KEYS = Fault(
    ErrorCode.CREDENTIALS,
    fatal=True,
    advice="no usable AWS credentials: set AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a role",
    quote=False,
)
_CLOCK = Fault(ErrorCode.CREDENTIALS, retryable=True, advice="this machine's clock is wrong: set it right", quote=False)
_BUSY = Fault(ErrorCode.THROTTLED, retryable=True)
_DOWN = Fault(ErrorCode.UNAVAILABLE, retryable=True)
_SILENT = Fault(ErrorCode.CONNECTION, retryable=True)
_INVALID = Fault(ErrorCode.INVALID)
_INVALID_CALL = Fault(ErrorCode.INVALID, quote=False)
_KEY_DENIED = Fault(
    ErrorCode.ACCESS_DENIED, fatal=True, advice="the queue's KMS key must exist, be enabled and allow this identity"
)
_NO_REGION = Fault(
    ErrorCode.CONFIGURATION, fatal=True, advice="set region=..., AWS_REGION, or a topic whose host names the region"
)
_SETUP = Fault(ErrorCode.CONFIGURATION, fatal=True, advice="correct the AWS configuration")

#: An answer that no SQS gives: HTML, nothing, no JSON.
NOT_SQS = Fault(
    ErrorCode.BAD_RESPONSE,
    retryable=True,
    advice="this endpoint does not answer like SQS: check queue_address, AWS_ENDPOINT_URL and proxies",
    quote=False,
)
#: Neither code nor class is in a table.
UNKNOWN = Fault(ErrorCode.OTHER, quote=False)

# Keys are normal forms: see `normal_code()`.
_CODES: dict[str, Fault] = {
    "QueueDoesNotExist": _MISSING,
    "NonExistentQueue": _MISSING,
    "InvalidAddress": _MISSING,
    "ResourceNotFound": _MISSING,
    # SNS.
    "NotFound": Fault(
        ErrorCode.NOT_FOUND,
        fatal=True,
        advice="it must exist in this account and region: create it, or correct its ARN",
    ),
    "AccessDenied": _DENIED,
    "AuthorizationError": _DENIED,
    "NotAuthorized": _DENIED,
    "UnauthorizedOperation": _DENIED,
    "OptInRequired": _DENIED,
    "InvalidSecurity": _UNKNOWN_KEYS,
    "InvalidClientTokenId": _UNKNOWN_KEYS,
    "UnrecognizedClient": _UNKNOWN_KEYS,
    "SignatureDoesNotMatch": _UNKNOWN_KEYS,
    "InvalidSignature": _UNKNOWN_KEYS,
    "IncompleteSignature": _UNKNOWN_KEYS,
    "MissingAuthenticationToken": _UNKNOWN_KEYS,
    "InvalidAccessKeyId": _UNKNOWN_KEYS,
    "AuthFailure": _UNKNOWN_KEYS,
    "NotSignedUp": _UNKNOWN_KEYS,
    "ExpiredToken": _STALE_KEYS,
    "TokenRefreshRequired": _STALE_KEYS,
    "RequestExpired": _CLOCK,
    "RequestTimeTooSkewed": _CLOCK,
    "RequestInTheFuture": _CLOCK,
    "Throttling": _BUSY,
    "Throttled": _BUSY,
    "RequestThrottled": _BUSY,
    "RequestLimitExceeded": _BUSY,
    "RequestThrottling": _BUSY,
    "TooManyRequests": _BUSY,
    "LimitExceeded": _BUSY,
    "BandwidthLimitExceeded": _BUSY,
    "ProvisionedThroughputExceeded": _BUSY,
    "PriorRequestNotComplete": _BUSY,
    "SlowDown": _BUSY,
    "KmsThrottled": _BUSY,
    "KmsThrottling": _BUSY,
    # Too many messages in flight: it ends when some are settled.
    "OverLimit": _BUSY,
    "KmsAccessDenied": _KEY_DENIED,
    "KmsDisabled": _KEY_DENIED,
    "KmsInvalidKeyUsage": _KEY_DENIED,
    "KmsInvalidState": _KEY_DENIED,
    "KmsNotFound": _KEY_DENIED,
    "KmsOptInRequired": _KEY_DENIED,
    "InternalError": _DOWN,
    "InternalFailure": _DOWN,
    "InternalServerError": _DOWN,
    "InternalService": _DOWN,
    "ServiceUnavailable": _DOWN,
    "Unavailable": _DOWN,
    "RequestTimeout": _SILENT,
    # S3, for large payloads.
    "NoSuchKey": Fault(ErrorCode.NOT_FOUND),
    "NoSuchBucket": Fault(ErrorCode.NOT_FOUND, advice="the bucket must exist: create it, or correct its name"),
    "PermanentRedirect": Fault(ErrorCode.CONFIGURATION, advice="the bucket is in another region: set payloads.region"),
    "AuthorizationHeaderMalformed": Fault(
        ErrorCode.CONFIGURATION, advice="the bucket is in another region: set payloads.region"
    ),
    "InvalidObjectState": Fault(ErrorCode.INVALID, advice="the object is archived: restore it"),
    "BadDigest": Fault(ErrorCode.CHECKSUM, retryable=True),
    "InvalidParameterValue": _INVALID,
    "InvalidParameterCombination": _INVALID,
    "InvalidParameter": _INVALID,
    "ParameterValueInvalid": _INVALID,
    "ConcurrentAccess": _BUSY,
    "FilterPolicyLimitExceeded": _INVALID,
    "SubscriptionLimitExceeded": _INVALID,
    "InvalidQueryParameter": _INVALID,
    "MissingParameter": _INVALID,
    "MissingRequiredParameter": _INVALID,
    "InvalidMessageContents": _INVALID,
    "InvalidAttributeName": _INVALID,
    "InvalidAttributeValue": _INVALID,
    "InvalidIdFormat": _INVALID,
    "Validation": _INVALID_CALL,
    "ValidationError": _INVALID_CALL,
    "Serialization": _INVALID_CALL,
    "InvalidAction": _INVALID,
    "UnknownOperation": _INVALID,
    "UnsupportedOperation": _INVALID,
    "BatchRequestTooLong": Fault(ErrorCode.TOO_LARGE),
    "EmptyBatchRequest": _INVALID,
    "TooManyEntriesInBatchRequest": _INVALID,
    "BatchEntryIdsNotDistinct": _INVALID,
    "InvalidBatchEntryId": _INVALID,
    "ReceiptHandleIsInvalid": Fault(ErrorCode.LEASE_LOST),
    "MessageNotInflight": Fault(ErrorCode.LEASE_LOST),
}

# By class name, the most special first met in the class's bases wins.
_CLASSES: dict[str, Fault] = {
    "NoCredentialsError": _NO_KEYS,
    "PartialCredentialsError": _NO_KEYS,
    "NoAuthTokenError": _NO_KEYS,
    # A metadata service or a token endpoint that fails now may work later (the role's credentials do run out).
    "CredentialRetrievalError": _STALE_KEYS,
    "MetadataRetrievalError": _STALE_KEYS,
    "TokenRetrievalError": _STALE_KEYS,
    "SSOError": _STALE_KEYS,
    "ProfileNotFound": _SETUP,
    "ConfigParseError": _SETUP,
    "ConfigNotFound": _SETUP,
    "InvalidConfigError": _SETUP,
    "InvalidRegionError": _SETUP,
    "InvalidRetryConfigurationError": _SETUP,
    "InvalidProxiesConfigError": _SETUP,
    "EndpointProviderError": _SETUP,
    "UnknownEndpointError": _SETUP,
    "NoRegionError": _NO_REGION,
    "ParamValidationError": _INVALID_CALL,
    "SSLError": Fault(
        ErrorCode.CONNECTION, retryable=True, advice="the endpoint's certificate is not trusted, or it speaks no TLS"
    ),
    "HTTPClientError": _SILENT,
    "ConnectionError": _SILENT,
    "EndpointConnectionError": _SILENT,
    "ReadTimeoutError": _SILENT,
    "ResponseStreamingError": _SILENT,
    "IncompleteReadError": _SILENT,
    "FlexibleChecksumError": Fault(ErrorCode.CHECKSUM, retryable=True),
    "ClientError": UNKNOWN,
    "ResponseParserError": NOT_SQS,
    "ClientConnectionError": _SILENT,
    "ClientPayloadError": _SILENT,
    "TimeoutError": _SILENT,
    "OSError": _SILENT,
    # Not from the SDK's hierarchy: its parser tripped over an answer that is no object, or not even text.
    "ValueError": NOT_SQS,
    "TypeError": NOT_SQS,
    "AttributeError": NOT_SQS,
    "LookupError": NOT_SQS,
}

_NAMESPACES = ("AWS.SimpleQueueService.", "AWS.")


def normal_code(code: str) -> str:
    """Return an error code without what its protocols put around it: shape name space, prefix, fault, ending."""
    code = code.rpartition("#")[2].partition(";")[0].partition(":")[0]
    for prefix in _NAMESPACES:
        code = code.removeprefix(prefix)
    if code.startswith("KMS"):  # as the query protocol of SQS (with a dot) and SNS write KmsDisabled and its like
        code = "Kms" + code.removeprefix("KMS").removeprefix(".")
    return code.removesuffix("Exception")


def fault_of_code(code: str, status: int = 0) -> Fault:
    """
    Return what an error code of the service means; for one that is not in the table the HTTP status decides.

    Args:
        code: As the SDK gives it.  For an answer without a code that is the status as text, or "".
    """
    named = bool(code) and not code.isdigit()
    return _CODES.get(normal_code(code)) or _fault_of_status(status, named=named)


def fault_of_entry(code: str, *, sender_fault: bool) -> Fault:
    """
    Return what one failed entry of a batch means: retryable only where neither code nor flag blames the sender.

    LocalStack flags every entry as its own fault, bad handles and bodies too; hence the code is looked at first.
    """
    known = _CODES.get(normal_code(code))
    if known is None:
        return Fault(ErrorCode.INVALID if sender_fault else ErrorCode.UNAVAILABLE, retryable=not sender_fault)
    return replace(known, retryable=known.retryable and not sender_fault)


def _fault_of_status(status: int, *, named: bool) -> Fault:
    if status == 429:
        return _BUSY
    if status >= 500:
        return Fault(ErrorCode.UNAVAILABLE, retryable=True, quote=named)
    if status in (401, 403):
        return Fault(ErrorCode.ACCESS_DENIED, fatal=True, advice=_DENIED.advice, quote=named)
    if named or not status:
        return Fault(ErrorCode.OTHER, quote=named)
    return NOT_SQS


def fault_of_class(names: Iterable[str]) -> Fault:
    """Return what an exception means by the names of its class and bases, the class itself first."""
    for name in names:
        fault = _CLASSES.get(name)
        if fault is not None:
            return fault
    return UNKNOWN


#: Characters of the service's own words in an error text at most.
_QUOTE_CHARS = 300


def describe(action: str, target: str, endpoint: str, fault: Fault, name: str, words: str = "") -> str:
    """Return an error text: what failed, where, the service's own words where they are safe, and what to do."""
    quoted = " ".join(words.split())[:_QUOTE_CHARS] if fault.quote and not words.lstrip().startswith("<") else ""
    text = f"{action} on {target} at {endpoint} failed: {name}"
    text += f": {quoted}" if quoted else ""
    return f"{text} — {fault.advice}" if fault.advice else text
