"""What the faults of SQS and of its client mean."""

from __future__ import annotations

import botocore.exceptions as sdk
import pytest
from botocore.parsers import ResponseParserError

from messagequeue import ErrorCode
from messagequeue_sqs import _faults
from messagequeue_sqs._client import translate
from messagequeue_sqs._faults import fault_of_code, fault_of_entry, normal_code


def client_error(code: str, status: int, words: str = "words") -> sdk.ClientError:
    response = {"Error": {"Code": code, "Message": words}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return sdk.ClientError(response, "ReceiveMessage")  # type: ignore[arg-type]


CODES = [
    ("AWS.SimpleQueueService.NonExistentQueue", 400, ErrorCode.NOT_FOUND, False, True),
    ("QueueDoesNotExist", 400, ErrorCode.NOT_FOUND, False, True),
    ("AccessDenied", 403, ErrorCode.ACCESS_DENIED, False, True),
    ("AccessDeniedException", 403, ErrorCode.ACCESS_DENIED, False, True),
    ("InvalidClientTokenId", 403, ErrorCode.CREDENTIALS, False, True),
    ("UnrecognizedClientException", 403, ErrorCode.CREDENTIALS, False, True),
    ("SignatureDoesNotMatch", 403, ErrorCode.CREDENTIALS, False, True),
    ("ExpiredToken", 403, ErrorCode.CREDENTIALS, True, False),
    ("ExpiredTokenException", 403, ErrorCode.CREDENTIALS, True, False),
    ("RequestThrottled", 403, ErrorCode.THROTTLED, True, False),
    ("ThrottlingException", 400, ErrorCode.THROTTLED, True, False),
    ("OverLimit", 403, ErrorCode.THROTTLED, True, False),
    ("KmsThrottled", 400, ErrorCode.THROTTLED, True, False),
    ("KmsAccessDenied", 400, ErrorCode.ACCESS_DENIED, False, True),
    ("KMS.DisabledException", 400, ErrorCode.ACCESS_DENIED, False, True),
    ("InternalError", 500, ErrorCode.UNAVAILABLE, True, False),
    ("ServiceUnavailable", 503, ErrorCode.UNAVAILABLE, True, False),
    ("500", 500, ErrorCode.UNAVAILABLE, True, False),
    ("502", 502, ErrorCode.UNAVAILABLE, True, False),
    ("429", 429, ErrorCode.THROTTLED, True, False),
    ("403", 403, ErrorCode.ACCESS_DENIED, False, True),
    ("404", 404, ErrorCode.BAD_RESPONSE, True, False),
    ("", 302, ErrorCode.BAD_RESPONSE, True, False),
    ("InvalidParameterValue", 400, ErrorCode.INVALID, False, False),
    ("AWS.SimpleQueueService.BatchRequestTooLong", 400, ErrorCode.TOO_LARGE, False, False),
    ("NobodyKnowsThis", 400, ErrorCode.OTHER, False, False),
    ("NobodyKnowsThis", 503, ErrorCode.UNAVAILABLE, True, False),
]


@pytest.mark.parametrize(("code", "status", "kind", "retryable", "fatal"), CODES)
def test_error_code_means_one_kind_of_fault(
    code: str, status: int, kind: ErrorCode, retryable: bool, fatal: bool
) -> None:
    """An expired token backs off and does not end a consumer (CFG-07); an unknown code goes by its status."""
    fault = translate(client_error(code, status), "ReceiveMessage", "queue q", "https://e").fault

    assert (fault.code, fault.retryable, fault.fatal) == (kind, retryable, fatal)


EXCEPTIONS = [
    (sdk.EndpointConnectionError(endpoint_url="http://e"), ErrorCode.CONNECTION, True, False),
    (sdk.ConnectTimeoutError(endpoint_url="http://e"), ErrorCode.CONNECTION, True, False),
    (sdk.ReadTimeoutError(endpoint_url="http://e"), ErrorCode.CONNECTION, True, False),
    (sdk.ConnectionClosedError(endpoint_url="http://e"), ErrorCode.CONNECTION, True, False),
    (sdk.HTTPClientError(error="x"), ErrorCode.CONNECTION, True, False),
    (sdk.SSLError(endpoint_url="http://e", error="x"), ErrorCode.CONNECTION, True, False),
    (ResponseParserError("x"), ErrorCode.BAD_RESPONSE, True, False),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), ErrorCode.BAD_RESPONSE, True, False),
    (AttributeError("'list' object has no attribute 'get'"), ErrorCode.BAD_RESPONSE, True, False),
    (sdk.NoCredentialsError(), ErrorCode.CREDENTIALS, False, True),
    (sdk.PartialCredentialsError(provider="env", cred_var="x"), ErrorCode.CREDENTIALS, False, True),
    (sdk.CredentialRetrievalError(provider="x", error_msg="y"), ErrorCode.CREDENTIALS, True, False),
    (sdk.NoRegionError(), ErrorCode.CONFIGURATION, False, True),
    (sdk.ParamValidationError(report="MessageBody: secret"), ErrorCode.INVALID, False, False),
    (TimeoutError(), ErrorCode.CONNECTION, True, False),
    (ConnectionResetError(), ErrorCode.CONNECTION, True, False),
    (RuntimeError("x"), ErrorCode.OTHER, False, False),
]


@pytest.mark.parametrize(("error", "kind", "retryable", "fatal"), EXCEPTIONS, ids=lambda x: type(x).__name__)
def test_exception_of_the_sdk_means_one_kind_of_fault(
    error: Exception, kind: ErrorCode, retryable: bool, fatal: bool
) -> None:
    """No answer may be repeated; no credentials, region or queue ends a consumer."""
    fault = translate(error, "ReceiveMessage", "queue q", "https://e").fault

    assert (fault.code, fault.retryable, fault.fatal) == (kind, retryable, fatal)


def test_every_exception_class_of_the_table_exists_in_the_sdk_or_in_python() -> None:
    """A class that the SDK renamed would fall back to OTHER without a word."""
    import builtins

    import aiohttp

    homes = (sdk, builtins, aiohttp)
    strange = {"ResponseParserError"}
    missing = [name for name in _faults._CLASSES if not any(hasattr(home, name) for home in homes)]
    assert set(missing) == strange


def test_error_text_names_call_queue_endpoint_and_what_to_do() -> None:
    """The service's own words stand in it where they are safe."""
    error = translate(
        client_error("AccessDenied", 403, "not authorized to sqs:x"), "SendMessageBatch", "queue q", "https://e"
    )

    assert str(error).startswith(
        "SendMessageBatch on queue q at https://e failed: AccessDenied: not authorized to sqs:x"
    )
    assert "grant the action" in str(error)


@pytest.mark.parametrize(
    "error",
    [
        sdk.ParamValidationError(report="Invalid type for parameter MessageBody, value: secret"),
        client_error("SignatureDoesNotMatch", 403, "The Canonical String should have been secret"),
        client_error("InvalidClientTokenId", 403, "token secret"),
        client_error("502", 502, "<html>secret</html>"),
        client_error("AccessDenied", 403, "<html>secret</html>"),
    ],
)
def test_error_text_holds_no_body_key_or_page(error: Exception) -> None:
    """What the SDK or a proxy repeats of the request stays in `__cause__`."""
    assert "secret" not in str(translate(error, "SendMessageBatch", "queue q", "https://e"))


@pytest.mark.parametrize(
    ("code", "plain"),
    [
        ("com.amazonaws.sqs#QueueDoesNotExist", "QueueDoesNotExist"),
        ("AWS.SimpleQueueService.NonExistentQueue;Sender", "NonExistentQueue"),
        ("InvalidParameterValueException", "InvalidParameterValue"),
    ],
)
def test_normal_code_is_without_what_the_protocols_add(code: str, plain: str) -> None:
    """JSON, query and LocalStack write the same code in different ways."""
    assert normal_code(code) == plain


@pytest.mark.parametrize(
    ("code", "sender_fault", "kind", "retryable"),
    [
        ("InternalError", False, ErrorCode.UNAVAILABLE, True),
        ("InternalError", True, ErrorCode.UNAVAILABLE, False),
        ("InvalidParameterValue", True, ErrorCode.INVALID, False),
        ("InvalidMessageContents", False, ErrorCode.INVALID, False),
        ("Strange", False, ErrorCode.UNAVAILABLE, True),
        ("Strange", True, ErrorCode.INVALID, False),
    ],
)
def test_failed_entry_is_retryable_only_where_neither_code_nor_flag_blames_the_sender(
    code: str, sender_fault: bool, kind: ErrorCode, retryable: bool
) -> None:
    """LocalStack flags nothing as the sender's fault, so the flag alone would resend bad bodies."""
    fault = fault_of_entry(code, sender_fault=sender_fault)

    assert (fault.code, fault.retryable) == (kind, retryable)


def test_fault_of_code_without_status_is_not_taken_for_a_foreign_answer() -> None:
    """Entries of a batch have no status of their own."""
    assert fault_of_code("Strange").code is ErrorCode.OTHER
