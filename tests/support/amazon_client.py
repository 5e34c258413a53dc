"""Amazon's own extended client for Python, as a peer that this library did not write."""

from __future__ import annotations

from typing import Any

import boto3


def extended_client(endpoint: str, s3: Any, bucket: str) -> Any:
    """
    Return a client of SQS whose bodies above 256 KiB go to *bucket*.

    Importing that package puts its session in the place of boto3's, for the whole process: that is undone.
    """
    before = boto3.session.Session, boto3.Session, boto3.DEFAULT_SESSION
    try:
        from sqs_extended_client import SQSExtendedClientSession
    finally:
        boto3.session.Session, boto3.Session, boto3.DEFAULT_SESSION = before
    client: Any = SQSExtendedClientSession().client("sqs", endpoint_url=endpoint)
    client.s3_client = s3
    client.large_payload_support = bucket
    return client
