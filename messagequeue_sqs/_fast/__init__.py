"""
A short path for the four calls that messages take: built, signed, sent and read here; never a client of its own.

The SDK stays in charge.  It draws the first request of each action, and what it drew (address, headers, signature) is
what is sent from then on.  It gives the credentials of every request.  And whatever is not a clean answer is handed to
it as the outcome of *its* first attempt: it judges, retries and raises as always, with its own counting of attempts.

* `_sigv4`, `_http`, `_breaker`: pure, without sockets and clocks
* `_connection`, `_pool`: HTTP/1.1 over asyncio transports
* `_sdk`: what is taken from a client of the SDK, and how an outcome is put into it
* `_transport`: the `_api.SqsApi` that joins them
"""
