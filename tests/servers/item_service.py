"""A model's service that answers `item N` with `{"n": N}`, as a process of its own, and fast.

    python item_service.py            answers everything, and prints its port
    python item_service.py --faults   5 % of first attempts fail, and no more than 200 answers come
                                      in 0.2 s: 429 with Retry-After to the others
    python item_service.py --hold 60  after 60 answers it answers nobody, until `GET /release`;
                                      `GET /held` says how many wait, and `GET /lost` who left

A request with tools and no result of one is answered by a call of the first tool.

`GET /paid` tells how many answers of each item were sent whole.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections import Counter

BODY = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "usage": {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29},
}
FAULTS = "--faults" in sys.argv
HOLDS = [int(each) for each in sys.argv[2:] if "--hold" in sys.argv]
MOST, WINDOW = 200, 0.2

paid: Counter[str] = Counter()
tried: Counter[str] = Counter()
lost: Counter[str] = Counter()
window = [0.0, 0]
held: list[tuple[Service, str]] = []


def make(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", "Content-Type: application/json", *headers]
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}"])
    return f"{head}\r\n\r\n".encode() + body


def make_error(status: int, *headers: str) -> bytes:
    return make(status, json.dumps({"error": {"message": "no"}}).encode(), *headers)


class Service(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.data = transport, b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        size = re.search(rb"(?i)content-length: *(\d+)", head)
        if not end or len(body) < int(size[1] if size else 0):
            return
        self.data = b""
        if head.startswith(b"GET"):
            self.tell(head.split()[1].decode())
        elif b'"tools":' in body and b'"role":"tool"' not in body:
            self.call(json.loads(body)["tools"][0]["function"]["name"])
        else:
            self.answer(re.findall(r"item (\d+)", body.decode())[0])

    def call(self, name: str) -> None:
        function = {"name": name, "arguments": "{}"}
        calls = [{"id": "call", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
        self.transport.write(make(200, json.dumps(BODY | {"choices": choices}).encode()))

    def connection_lost(self, error: Exception | None) -> None:
        lost.update(number for service, number in held if service is self)
        held[:] = [each for each in held if each[0] is not self]

    def is_gone(self) -> bool:
        """Return whether the client has left, also if `connection_lost` is yet to come."""
        number = self.transport.get_extra_info("socket").fileno()
        with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as copy:
            try:
                return not copy.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except ConnectionError:
                return True

    def tell(self, path: str) -> None:
        if path == "/release":
            gone = [each for each in held if each[0].is_gone()]
            waiting, held[:] = [each for each in held if each not in gone], gone
            HOLDS.pop(0)
            for service, number in waiting:
                service.answer(number)
        found = {"/paid": paid, "/lost": lost}.get(path, len(held))
        self.transport.write(make(200, json.dumps(found).encode()))

    def answer(self, number: str) -> None:
        if HOLDS and paid.total() >= HOLDS[0]:
            held.append((self, number))
            return
        tried[number] += 1
        if FAULTS and self.is_over_the_rate():
            self.transport.write(make_error(429, f"Retry-After: {WINDOW}"))
            return
        message = {"role": "assistant", "content": json.dumps({"n": int(number)})}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer = make(200, json.dumps(BODY | {"choices": choices}).encode())
        if FAULTS and tried[number] == 1 and int(number) % 20 == 7:
            if int(number) % 40 == 7:
                self.transport.write(make_error(500))
            else:
                self.transport.write(answer[:-30])
                self.transport.close()
            return
        paid[number] += 1
        self.transport.write(answer)

    def is_over_the_rate(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - window[0] > WINDOW:
            window[:] = [now, 0]
        window[1] += 1
        return window[1] > MOST


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Service, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
