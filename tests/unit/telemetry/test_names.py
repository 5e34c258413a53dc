"""The names are those of the conventions, and each is said once."""

from __future__ import annotations

import ast
from pathlib import Path

from opentelemetry.semconv._incubating.attributes import aws_attributes, messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.semconv.schemas import Schemas

import messagequeue.telemetry._names as names
from messagequeue.telemetry import INSTRUMENTS, OUTCOMES
from messagequeue_sqs import _telemetry

PACKAGE = Path(names.__file__).parent


def test_standard_names_are_those_of_the_conventions():
    """As the OpenTelemetry project publishes them, in the version that is named."""
    assert names.SYSTEM == messaging_attributes.MESSAGING_SYSTEM
    assert names.DESTINATION == messaging_attributes.MESSAGING_DESTINATION_NAME
    assert names.OPERATION_NAME == messaging_attributes.MESSAGING_OPERATION_NAME
    assert names.OPERATION_TYPE == messaging_attributes.MESSAGING_OPERATION_TYPE
    assert names.MESSAGE_ID == messaging_attributes.MESSAGING_MESSAGE_ID
    assert names.MESSAGE_COUNT == messaging_attributes.MESSAGING_BATCH_MESSAGE_COUNT
    assert names.CLIENT_ID == messaging_attributes.MESSAGING_CLIENT_ID
    assert names.SERVER_ADDRESS == server_attributes.SERVER_ADDRESS
    assert names.SERVER_PORT == server_attributes.SERVER_PORT
    assert names.ERROR_TYPE == error_attributes.ERROR_TYPE
    assert error_attributes.ErrorTypeValues.OTHER.value == names.OTHER_ERROR
    assert _telemetry.QUEUE_URL == aws_attributes.AWS_SQS_QUEUE_URL
    assert messaging_attributes.MessagingSystemValues.AWS_SQS.value == _telemetry.SYSTEM
    assert f"https://opentelemetry.io/schemas/{names.CONVENTIONS}" in {schema.value for schema in Schemas}


def test_standard_metrics_are_those_of_the_conventions():
    """All four of the messaging conventions; every other one has the library's name in front."""
    standard = {item.name for item in INSTRUMENTS if not item.name.startswith("messagequeue.")}

    assert standard == {
        messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION,
        messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES,
        messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES,
        messaging_metrics.MESSAGING_PROCESS_DURATION,
    }


def test_operation_types_are_those_of_the_conventions():
    """Each operation has one of the five."""
    known = {value.value for value in messaging_attributes.MessagingOperationTypeValues}

    assert set(names.OPERATION_TYPES.values()) <= known
    assert len(set(OUTCOMES)) == len(OUTCOMES)


def test_no_name_is_written_anywhere_else():
    """The code that records has them from one file."""
    written = [
        f"{path.name}:{node.lineno} {node.value}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "_names.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith(("messaging.", "server.", "error.", "messagequeue.")) and " " not in node.value
        if node.value != "messagequeue.telemetry"  # a logger
    ]

    assert written == []
