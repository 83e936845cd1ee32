"""The admin client, for threads and for asyncio."""
