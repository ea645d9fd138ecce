from __future__ import annotations

import asyncio
import threading

from ipyagent.kernel.threads import LoopThread


class One(LoopThread):
    thread_name = "one"


class Other(LoopThread):
    thread_name = "other"


async def name_of_thread() -> str:
    return threading.current_thread().name


def end(thread: LoopThread) -> None:
    thread.loop.call_soon_threadsafe(thread.loop.stop)
    thread.thread.join()


def test_each_class_has_one_thread_which_runs_what_is_submitted() -> None:
    one, other = One.current(), Other.current()
    assert One.current() is one
    assert one.submit(name_of_thread()).result() == "one"
    assert other.submit(name_of_thread()).result() == "other"
    end(one)
    end(other)


def test_a_thread_that_has_ended_closes_its_loop_and_is_replaced() -> None:
    first = One.current()
    end(first)
    assert first.loop.is_closed()
    second = One.current()
    assert second is not first
    assert second.submit(asyncio.sleep(0, "again")).result() == "again"
    end(second)
