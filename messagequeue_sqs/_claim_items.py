"""
Claims as items of a DynamoDB table: what is asked, and what the answers mean; pure, no client.

| attribute | type | |
|---|---|---|
| `id` | S | partition key: the record's key |
| `owner` | S | the token of the claim |
| `state` | S | `claimed` or `done` |
| `fingerprint` | S | |
| `ends_at` | N | until when it counts: seconds since 1970, to the millisecond |
| `expires_at` | N | from when DynamoDB may remove it (its time to live): whole seconds since 1970 |
| `result` | B | absent where there is none |

DynamoDB removes items days after their time, so every condition looks at `ends_at` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, TypeAlias

from messagequeue._errors import ConfigurationError
from messagequeue.idempotency._store import Claimed, ClaimOutcome, Done, InFlight

Item: TypeAlias = Mapping[str, Mapping[str, Any]]
Request: TypeAlias = dict[str, Any]

#: Bytes of a result at most.  Source: an item has 400 KB at most, names and all other attributes counted (DynamoDB
#: Developer Guide, "Service, account, and table quotas", read 2026-10).
MAX_RESULT = 384_000

#: Some are reserved words of the expression language, so all are written as placeholders.
_NAMES = ("id", "owner", "state", "fingerprint", "ends_at", "expires_at", "result")

_FREE = "attribute_not_exists(#id) OR #ends_at <= :now OR (#owner = :owner AND #state = :claimed)"
_CLAIMED_BY_OWNER = "#owner = :owner AND #state = :claimed"


def claim(table: str, key: str, now: float, *, owner: str, fingerprint: str, lease: float) -> Request:
    """PutItem: the record, where none is there that still counts."""
    item = {
        "id": {"S": key},
        "owner": {"S": owner},
        "state": {"S": "claimed"},
        "fingerprint": {"S": fingerprint},
        **_times(now + lease, now + 2 * lease),
    }
    values = {":now": _seconds(now), ":owner": {"S": owner}, ":claimed": {"S": "claimed"}}
    request = {
        "TableName": table,
        "Item": item,
        "ReturnValues": "ALL_OLD",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return _where(request, _FREE, values)


def granted(old: Item, *, owner: str) -> Claimed:
    """The answer to a claim that was written; *old* is the item that it replaced, {} where none was there."""
    return Claimed(took_over=bool(old) and _text(old, "state") == "claimed" and _text(old, "owner") != owner)


def refused(item: Item, now: float) -> ClaimOutcome | None:
    """The answer to a claim that was not written, because of *item*; None: *item* does not count any more."""
    remaining = float(item["ends_at"]["N"]) - now if item else 0.0
    if remaining <= 0:
        return None
    if _text(item, "state") == "done":
        result = item.get("result")
        return Done(_text(item, "fingerprint"), None if result is None else bytes(result["B"]))
    return InFlight(remaining, _text(item, "fingerprint"))


def read(table: str, key: str) -> Request:
    """GetItem: as every write before it left it."""
    return {"TableName": table, "Key": {"id": {"S": key}}, "ConsistentRead": True}


def renew(table: str, key: str, now: float, *, owner: str, lease: float) -> Request:
    """UpdateItem: the ends, where it is this owner's claim."""
    changes = {f":{name}": value for name, value in _times(now + lease, now + 2 * lease).items()}
    values = {":owner": {"S": owner}, ":claimed": {"S": "claimed"}, **changes}
    request = _one(table, key) | {"UpdateExpression": "SET #ends_at = :ends_at, #expires_at = :expires_at"}
    return _where(request, _CLAIMED_BY_OWNER, values)


def complete(table: str, key: str, now: float, *, owner: str, ttl: float, result: bytes | None) -> Request:
    """UpdateItem: the result, where the record is this owner's; once more where it was given before."""
    update = "SET #state = :done, #ends_at = :ends_at, #expires_at = :expires_at"
    changes = {f":{name}": value for name, value in _times(now + ttl, now + ttl).items()}
    values: dict[str, Any] = {":owner": {"S": owner}, ":done": {"S": "done"}, **changes}
    if result is not None:
        update += ", #result = :result"
        values[":result"] = {"B": result}
    return _where(_one(table, key) | {"UpdateExpression": update}, "#owner = :owner", values)


def release(table: str, key: str, *, owner: str) -> Request:
    """DeleteItem: where it is this owner's claim."""
    values = {":owner": {"S": owner}, ":claimed": {"S": "claimed"}}
    return _where(_one(table, key), _CLAIMED_BY_OWNER, values)


def table(name: str) -> Request:
    """CreateTable: paid by request, nothing to be planned."""
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    }


def check_table(description: Mapping[str, Any]) -> bool:
    """
    Whether the table can be used yet.

    Raises:
        ConfigurationError: it has another key.
    """
    types = {item["AttributeName"]: item["AttributeType"] for item in description["AttributeDefinitions"]}
    keys = [(item["AttributeName"], item["KeyType"]) for item in description["KeySchema"]]
    if keys != [("id", "HASH")] or types["id"] != "S":
        raise ConfigurationError(
            f"table {description['TableName']!r} has another key: claims need `id` (S) as partition key and no sort key"
        )
    return bool(description["TableStatus"] == "ACTIVE")


def expiry(name: str) -> Request:
    """UpdateTimeToLive: by the attribute for it."""
    return {"TableName": name, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "expires_at"}}


def check_expiry(name: str, description: Mapping[str, Any]) -> bool:
    """
    Whether DynamoDB removes what has ended, or is about to.

    Raises:
        ConfigurationError: it goes by another attribute, so that records would stay for ever.
    """
    status = description.get("TimeToLiveStatus", "DISABLED")
    if status in ("DISABLED", "DISABLING"):
        return False
    if description.get("AttributeName") != "expires_at":
        raise ConfigurationError(
            f"table {name!r} has its time to live on {description.get('AttributeName')!r}: claims need "
            "it on `expires_at`"
        )
    return True


def _one(table: str, key: str) -> Request:
    return {"TableName": table, "Key": {"id": {"S": key}}}


def _where(request: Request, condition: str, values: Mapping[str, Any]) -> Request:
    """Return *request* with a condition, and with the names that its expressions use: DynamoDB refuses any other."""
    text = condition + request.get("UpdateExpression", "")
    return request | {
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {f"#{name}": name for name in _NAMES if f"#{name}" in text},
        "ExpressionAttributeValues": values,
    }


def _times(ends_at: float, expires_at: float) -> dict[str, dict[str, str]]:
    return {"ends_at": _seconds(ends_at), "expires_at": {"N": str(ceil(expires_at))}}


def _seconds(value: float) -> dict[str, str]:
    return {"N": f"{value:.3f}"}


def _text(item: Item, name: str) -> str:
    return str(item[name]["S"])
