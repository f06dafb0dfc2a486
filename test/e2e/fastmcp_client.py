"""Drives Cellwright with FastMCP's client: fastmcp_client.py stdio COMMAND… | http URL TOKEN. Prints one JSON line."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport


async def main() -> None:
    kind, *rest = sys.argv[1:]
    transport = (
        StdioTransport(command=rest[0], args=rest[1:])
        if kind == "stdio"
        else StreamableHttpTransport(rest[0], headers={"Authorization": f"Bearer {rest[1]}"})
    )
    progress: list[str] = []

    async def on_progress(_progress, _total, message) -> None:
        progress.append(message or "")

    async with Client(transport, progress_handler=on_progress) as client:
        tools = [tool.name for tool in await client.list_tools()]
        first = await client.call_tool("execute_code", {"code": "x = 6"})
        session = first.meta["cellwright/execution"]["session_id"]
        second = await client.call_tool("execute_code", {"code": "x * 7", "session_id": session})
        endless = asyncio.create_task(
            client.call_tool("execute_code", {"code": "print('looping')\nwhile True: pass", "session_id": session})
        )
        while True:
            look = await client.call_tool("wait", {"session_id": session, "wait_s": 0})
            if look.meta["cellwright/execution"]["status"] == "running":
                break
        listed = await client.call_tool("list_sessions", {})
        await client.call_tool("interrupt", {"session_id": session})
        stopped = await endless
        bad = await client.call_tool("execute_code", {"code": 5}, raise_on_error=False)
        await client.call_tool("write_file", {"session_id": session, "path": "a.txt", "content": "hello"})
        resource = await client.read_resource(f"cell://{session}/a.txt")
        print(
            json.dumps(
                {
                    "tools": tools,
                    "second": second.content[0].text,
                    "listed": session in listed.content[0].text,
                    "stopped": stopped.meta["cellwright/execution"]["status"],
                    "bad": bad.is_error,
                    "resource": resource[0].text,
                }
            )
        )


asyncio.run(main())
