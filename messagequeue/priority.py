"""
One consumer over several topics, the urgent ones first.

    from messagequeue.priority import new_priority_consumer

    consumer = await new_priority_consumer(provider, ["urgent", "bulk"], handler)
"""

from .runtime.priority import PriorityConsumer, new_priority_consumer

__all__ = ["PriorityConsumer", "new_priority_consumer"]
