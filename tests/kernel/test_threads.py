"""Jobs for the main thread, and threads with a loop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Sized
from concurrent.futures import Future
from types import FrameType

import pytest

from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.kernel.interrupt import Interrupt, watch_interrupts
from ipyagent.kernel.threads import LoopThread, MainThread, is_uninterruptible
from patience import PATIENCE, until


def test_a_job_that_was_queued_before_the_stop_does_not_run_after_it() -> None:
    main, ran = MainThread(), []
    future = main.post(lambda: ran.append(1))
    main.stop()
    main.serve()
    assert ran == []
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        future.result(0)


async def test_an_awaiting_job_ends_when_it_is_stopped_and_reminded() -> None:
    main, stopped = MainThread(), asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
        await asyncio.sleep(60)

    future: Future[None] = main.post(wait)
    serving = asyncio.ensure_future(main.serve_async())
    await until(lambda: main.busy)
    main.stop()
    await asyncio.wait_for(stopped.wait(), PATIENCE)
    Interrupt(main).remind()
    await asyncio.wait_for(serving, PATIENCE)
    assert future.exception(0) is not None
    assert not main.busy


async def test_a_job_that_is_stopped_before_it_awaits_does_not_wait() -> None:
    main = MainThread()

    def job() -> asyncio.Future[None]:
        main.stop()
        return asyncio.get_running_loop().create_future()

    future: Future[None] = main.post(job)
    await asyncio.wait_for(main.serve_async(), PATIENCE)
    assert isinstance(future.exception(0), RuntimeError)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), StopIteration()])
def test_an_exception_that_would_end_an_event_loop_becomes_an_ordinary_error(
    error: BaseException,
) -> None:
    main = MainThread()

    def job() -> None:
        raise error

    future = main.post(job)
    main.serve()
    assert isinstance(future.exception(0), RuntimeError)


def test_a_job_whose_caller_was_cancelled_does_not_run() -> None:
    main, ran = MainThread(), []
    future = main.post(lambda: ran.append(1))
    future.cancel()
    main.serve()
    assert ran == []
    other = MainThread()
    of_another_run = other.post(lambda: "done")
    other.serve()
    assert of_another_run.result(0) == "done"


async def test_a_job_that_awaits_keeps_its_turn_from_the_jobs_of_other_runs() -> None:
    one, other = MainThread(), MainThread()
    begun, go, rung = asyncio.Event(), asyncio.Event(), asyncio.Event()
    other.ring = rung.set
    trail: list[str] = []

    async def wait() -> None:
        trail.append("begin")
        begun.set()
        await go.wait()
        trail.append("end")

    one.post(wait)
    serving = asyncio.ensure_future(one.serve_async())
    await begun.wait()
    other.post(lambda: trail.append("other"))
    rung.clear()
    await other.serve_async()
    assert trail == ["begin"]
    go.set()
    await serving
    assert rung.is_set()
    await other.serve_async()
    assert trail == ["begin", "end", "other"]


def test_a_run_that_has_ended_is_not_left_to_the_background() -> None:
    cell, ended = Cell(), threading.Event()

    async def engine() -> str:
        cell.main.post(lambda: ended.wait(PATIENCE))
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: ended.set())
        cell.release("so far")
        return "all"

    assert drive_sync(cell, engine) == "all"
    assert cell.background is None


def test_signals_beyond_what_a_busy_loop_can_read_print_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    loop, before = asyncio.new_event_loop(), signal.signal(signal.SIGUSR1, lambda *_: None)
    with watch_interrupts(loop, lambda: None):
        for _ in range(2_000):
            signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert capfd.readouterr().err == ""


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


class Held:
    """An object that can be referred to weakly."""


HELD: list[Held] = []


@pytest.mark.parametrize(
    "make", [lambda: weakref.WeakValueDictionary(x=HELD[0]), lambda: weakref.WeakSet(HELD)]
)
def test_no_interrupt_is_lost_in_the_callback_of_an_object_that_goes(
    make: Callable[[], Sized],
) -> None:
    HELD.append(Held())
    holder, seen = make(), list[bool]()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in ("remove", "_remove"):
            seen.append(is_uninterruptible(frame))

    sys.setprofile(look)
    try:
        HELD.clear()
    finally:
        sys.setprofile(None)
    assert (seen, len(holder)) == ([True], 0)
    assert not is_uninterruptible(sys._getframe())


def test_no_interrupt_leaves_the_lock_of_all_loggers_held() -> None:
    seen = dict[str, bool]()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            pass

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in ("isEnabledFor", "emit"):
            seen[frame.f_code.co_name] = is_uninterruptible(frame)

    logger = logging.Logger("a logger of its own")
    logger.addHandler(Handler())
    sys.setprofile(look)
    try:
        logger.warning("Something happens.")
    finally:
        sys.setprofile(None)
    assert seen == {"isEnabledFor": True, "emit": False}
