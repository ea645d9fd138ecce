"""The logger `ipyagent` is silent and redacted; trace ids are checked."""

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import get_args

import pytest

from harness import Lab
from ipyagent import telemetry
from ipyagent.errors import ConfigError
from ipyagent.redaction import HIDDEN, Redactor
from ipyagent.schema import Outcome

WARN = "import logging; logging.getLogger('ipyagent.llm').error('boo')"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    logger = logging.getLogger("ipyagent")
    level, handlers, filters = logger.level, logger.handlers[:], logger.filters[:]
    yield
    logger.setLevel(level)
    logger.handlers[:], logger.filters[:] = handlers, filters


def printed_by(code: str) -> str:
    """Return all text that a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.spec("A14")
@pytest.mark.parametrize("level", get_args(telemetry.Level))
def test_nothing_is_printed_without_a_handler(level: telemetry.Level) -> None:
    assert "boo" in printed_by(WARN)  # which is what Python does of its own accord
    quiet = f"from ipyagent import telemetry; telemetry.setup_logging({level!r});"
    assert printed_by(quiet + WARN) == ""
    assert "boo" in printed_by(f"{quiet} import logging; logging.basicConfig(); {WARN}")


@pytest.mark.spec("A14")
@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", "debug info warning error"),
        ("info", "info warning error"),
        ("warn", "warning error"),
        ("error", "error"),
    ],
)
def test_records_below_the_level_are_dropped(
    level: telemetry.Level, heard: str, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry.setup_logging(level)
    logger = logging.getLogger("ipyagent.some.room")
    for name in ("debug", "info", "warning", "error"):
        getattr(logger, name)(name)
    assert caplog.messages == heard.split()


@pytest.mark.spec("A14")
def test_the_level_is_info_and_only_our_own_logger_is_touched() -> None:
    root, others = logging.getLogger(), logging.getLogger("LiteLLM")
    before = (root.level, root.handlers[:], others.level, others.handlers[:])
    for _ in range(3):
        telemetry.setup_logging()
    logger = logging.getLogger("ipyagent")
    assert logger.level == logging.INFO
    assert len([h for h in logger.handlers if isinstance(h, logging.NullHandler)]) == 1
    assert (root.level, root.handlers[:], others.level, others.handlers[:]) == before


@pytest.mark.spec("A52")
def test_the_traceback_of_a_failure_is_in_the_log_and_not_in_the_run(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry.setup_logging("error")

    def broken(_request: object) -> str:
        raise RuntimeError("a bug of ours")

    run = lab.run([broken])
    assert run.outcome is Outcome.FAILED
    assert "Traceback" not in str(run.error)
    assert "Traceback" in caplog.text
    assert "in broken" in caplog.text


KEY = "no-pattern-knows-this"
LOOKS = "ghp_0123456789abcdefghij0123456789abcdef"


def fail() -> None:
    try:
        raise KeyError(KEY)
    except KeyError as error:
        raise RuntimeError(f"refused: {LOOKS}") from error


def log_everything() -> None:
    """Log secrets in every part of a record."""
    log = logging.getLogger("ipyagent")
    log.info("key %s", KEY)
    log.info(f"key {LOOKS}, 100%")
    log.info("%(known)s %(looks)s", {"known": KEY, "looks": LOOKS})
    log.info("%s", ValueError(KEY), stack_info=True)
    try:
        fail()
    except RuntimeError:
        log.exception("failed with %r", {"token": KEY})


@pytest.mark.spec("A06", "H15")
def test_no_part_of_a_record_brings_a_secret_into_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("ipyagent"), "filters", [])
    logging.getLogger("ipyagent").setLevel("INFO")
    log_everything()
    assert caplog.text.count(KEY) >= 5  # which is what a logger does of its own accord
    assert LOOKS in caplog.text
    caplog.clear()
    telemetry.setup_logging("info", Redactor([KEY]))
    log_everything()
    text = caplog.text + "".join(repr(vars(record)) for record in caplog.records)
    assert [secret for secret in (KEY, LOOKS) if secret in text] == []
    assert caplog.messages[:3] == [
        f"key {HIDDEN}",
        f"key {HIDDEN}, 100%",
        f"{HIDDEN} {HIDDEN}",
    ]
    assert f"RuntimeError: refused: {HIDDEN}" in caplog.text
    assert "in fail" in caplog.text


@pytest.mark.spec("H15")
def test_without_a_redactor_what_looks_like_a_secret_is_hidden(
    caplog: pytest.LogCaptureFixture,
) -> None:
    telemetry.setup_logging()
    logging.getLogger("ipyagent").info("%s %s", LOOKS, KEY)
    assert caplog.messages == [f"{HIDDEN} {KEY}"]
    telemetry.setup_logging("info", Redactor([KEY]))
    telemetry.setup_logging("info", Redactor([KEY, "another-value"]))
    logging.getLogger("ipyagent").info("%s another-value", KEY)
    assert caplog.messages[1:] == [f"{HIDDEN} {HIDDEN}"]
    filters = logging.getLogger("ipyagent").filters
    assert len([each for each in filters if isinstance(each, telemetry.RedactingFilter)]) == 1


def test_a_record_without_secrets_is_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    telemetry.setup_logging()
    log = logging.getLogger("ipyagent")
    try:
        raise ValueError("nothing secret")
    except ValueError:
        log.exception("%s of %d", "one", 2)
    (record,) = caplog.records
    assert (record.msg, record.args) == ("%s of %d", ("one", 2))
    assert record.exc_info
    assert record.exc_info[0] is ValueError


def test_a_message_that_does_not_fit_its_arguments_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    telemetry.setup_logging()
    logger = logging.getLogger("ipyagent")
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler()])
    monkeypatch.setattr(logger, "propagate", False)
    logger.info("%d %d", "one")


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.spec("P08")
def test_a_new_trace_id_is_32_hex_digits_and_different_each_time() -> None:
    ids = {telemetry.new_trace_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)


@pytest.mark.spec("P08")
@pytest.mark.parametrize("given", ["x", "a" * 64, "4bf92f3577b34da6a3ce929d0e0e4736", PARENT])
def test_a_given_trace_id_is_unchanged(given: str) -> None:
    assert telemetry.check_trace_id(given) == given


@pytest.mark.parametrize(
    "given", ["", "a" * 65, "a b", "a\r\nX-Admin: 1", "a\n", "<b>", "über", 'a"b', "١"]
)
def test_characters_that_a_header_cannot_hold_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="is not a trace id; give 1 to 64 letters"):
        telemetry.check_trace_id(given)


def test_loggers_do_not_look_for_their_levels_again_at_each_run() -> None:
    class Counting(logging.Logger):
        looked = 0

        def getEffectiveLevel(self) -> int:
            self.looked += 1
            return super().getEffectiveLevel()

    logging.setLoggerClass(Counting)
    try:
        counting = logging.getLogger("test_logs.counting")
    finally:
        logging.setLoggerClass(logging.Logger)
    assert isinstance(counting, Counting)
    levels: list[tuple[telemetry.Level, int]] = [("info", 1), ("info", 1), ("error", 2)]
    for level, looked in levels:
        telemetry.setup_logging(level)
        counting.debug("Nothing is printed.")
        assert counting.looked == looked
