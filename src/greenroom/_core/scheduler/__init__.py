"""The loop itself: ticks, visits to runnable cells, async handlers, and asyncio around it all."""
