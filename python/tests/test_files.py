"""Transfers of files, in one process and between two, over loopback."""

import asyncio
import os
import shlex
import signal
import threading
import time

import pytest
import rc3


RECEIVE = """
import sys, rc3
with rc3.Receiver(sys.argv[1], bind="127.0.0.1") as receiver:
    print(receiver.ticket)
    print(receiver.recv())
"""

SEND = """
import sys, rc3
print("sending")
rc3.send(sys.argv[2:], sys.argv[1], give_up_after="60s")
"""


def receiver(directory, **options):
    directory.mkdir(exist_ok=True)
    return rc3.Receiver(directory, bind="127.0.0.1", **options)


def tree(root):
    return {path.relative_to(root): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "empty").touch()
    (folder / "deep" / "small").write_bytes(b"hello")
    (folder / "deep" / "er" / "large").write_bytes(os.urandom(3_000_000))
    return folder


def transfer(paths, receiver, **options):
    """Sends in a thread; returns what the receiver reports, and the sender's summary or exception."""
    outcome = []

    def run():
        try:
            outcome.append(rc3.send(paths, receiver.ticket, **options))
        except BaseException as error:
            outcome.append(error)

    sender = threading.Thread(target=run)
    sender.start()
    try:
        received = receiver.recv()
    except rc3.Error as error:
        received = error
    sender.join()
    return received, outcome[0]


def test_folders_arrive_in_another_process(tmp_path, folder, python):
    into = tmp_path / "into"
    into.mkdir()
    process = python(RECEIVE, into)
    ticket = process.stdout.readline().strip()
    summary = rc3.send([folder, folder / "deep" / "small"], ticket)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 0, error
    assert (summary.files, summary.bytes) == (4, 3_000_010)
    assert "files=4" in out
    assert tree(into / "folder") == tree(folder)
    assert (into / "small").read_bytes() == b"hello"


def test_one_receiver_takes_transfer_after_transfer(tmp_path, folder):
    events = []
    with receiver(tmp_path / "into") as receiving:
        for path in [folder / "deep" / "small", folder]:
            received, sent = transfer(path, receiving, progress=events.append)
            assert received.bytes == sent.bytes
    assert tree(tmp_path / "into" / "folder") == tree(folder)
    assert [event["event"] for event in events].count("done") == 2
    assert {"event": "file", "path": "small", "bytes": 5} in events


def test_both_sides_in_one_event_loop(tmp_path, folder):
    async def run():
        async with receiver(tmp_path / "into") as receiving:
            names = []
            note = lambda event: names.append((event["event"], threading.get_ident()))
            sent, received = await asyncio.gather(
                rc3.send_async(folder, receiving.ticket, progress=note), receiving.recv_async()
            )
            assert sent.files == received.files == 3
            assert (names[0][0], names[-1][0]) == ("start", "done")
            assert {thread for _, thread in names} == {threading.get_ident()}

    asyncio.run(run())
    assert tree(tmp_path / "into" / "folder") == tree(folder)


def test_a_cancelled_transfer_continues_where_it_was(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(8_000_000))

    async def run():
        async with receiver(tmp_path / "into") as receiving:
            getting = asyncio.create_task(receiving.recv_async())
            half = asyncio.Event()

            def note(event):
                if event["event"] == "progress" and event["bytes"] > 4_000_000:
                    half.set()

            sending = asyncio.create_task(
                rc3.send_async(source, receiving.ticket, rate_limit="40mbit", progress=note)
            )
            await asyncio.wait_for(half.wait(), 30)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await rc3.send_async(source, receiving.ticket)
            return await getting

    summary = asyncio.run(run())
    assert (tmp_path / "into" / "source").read_bytes() == source.read_bytes()
    assert summary.primary_bytes + sum(summary.rlp_bytes) < 5_000_000


def test_a_cancelled_receiver_can_be_used_again(tmp_path, folder):
    async def run():
        async with receiver(tmp_path / "into") as receiving:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(receiving.recv_async(), 0.2)
            await asyncio.gather(rc3.send_async(folder, receiving.ticket), receiving.recv_async())

    asyncio.run(run())
    assert tree(tmp_path / "into" / "folder") == tree(folder)


def test_patterns_and_other_options_are_those_of_the_command(tmp_path, folder):
    with receiver(tmp_path / "into") as receiving:
        transfer(folder, receiving, include=["small", "empty"], exclude=["empty"])
        with pytest.raises(rc3.UsageError, match="no_such_option"):
            rc3.send(folder, receiving.ticket, no_such_option=True)
        with pytest.raises(rc3.UsageError, match="'fast' for 'rate_limit"):
            rc3.send(folder, receiving.ticket, rate_limit="fast")
    assert list(tree(tmp_path / "into")) == [(folder / "deep" / "small").relative_to(tmp_path)]


@pytest.mark.parametrize(
    "options, call",
    [
        (rc3.SendOptions, lambda **option: rc3.send("file", "rc3://damaged", **option)),
        (rc3.ReceiverOptions, lambda **option: rc3.Receiver("/nonexistent", **option)),
        (rc3.CopyOptions, lambda **option: rc3.copy("one", "two", **option)),
    ],
)
def test_each_typed_option_is_one_of_the_command(options, call):
    for name in options.__annotations__:
        with pytest.raises(rc3.Error) as failed:
            call(**{name: True})
        assert "unexpected argument" not in str(failed.value), name


def test_errors_name_parameters(tmp_path, folder):
    with receiver(tmp_path / "into") as receiving:
        ticket = receiving.ticket
    with pytest.raises(rc3.UsageError, match="mistyped") as mistyped:
        rc3.send(folder, ticket[:-2])
    with pytest.raises(rc3.UsageError) as both:
        rc3.Receiver(tmp_path, force=True, keep_both=True)
    for failed in (mistyped, both):
        assert "--" not in str(failed.value) + failed.value.hint
    assert "'keep_both'" in str(both.value)


def test_a_file_may_be_called_dash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_bytes(b"dash")
    with receiver(tmp_path / "into") as receiving:
        transfer("-", receiving)
    assert (tmp_path / "into" / "-").read_bytes() == b"dash"


def test_wrong_tickets_are_refused(tmp_path, folder):
    with receiver(tmp_path / "into") as receiving:
        with receiver(tmp_path / "other") as other:
            port = receiving.ticket.split("/")[2].split(":")[1]
            ours = other.ticket.split(":")[-1].split("/")[0]
            stranger = other.ticket.replace(f":{ours}/", f":{port}/")
            stop = threading.Thread(target=lambda: pytest.raises(rc3.Error, receiving.recv))
            stop.start()
            with pytest.raises(rc3.RefusedError) as refused:
                rc3.send(folder, stranger)
            assert refused.value.exit_code == 4
            assert "not the host that made this ticket" in str(refused.value)
            assert refused.value.hint
            receiving.close()
            stop.join()
    with pytest.raises(ValueError, match="not a ticket"):
        rc3.send(folder, "-")
    with pytest.raises(rc3.UsageError, match="not a ticket"):
        rc3.send(folder, receiving.ticket[:-3])


def test_conflicts_are_an_error_at_both_ends(tmp_path, folder):
    small = folder / "deep" / "small"
    with receiver(tmp_path / "into") as receiving:
        (tmp_path / "into" / "small").write_bytes(b"other")
        received, sent = transfer(small, receiving)
        assert isinstance(received, rc3.ConflictError) and isinstance(sent, rc3.ConflictError)
        assert sent.exit_code == 5
    with receiver(tmp_path / "into", force=True) as receiving:
        received, sent = transfer(small, receiving)
    assert sent.files == 1
    assert (tmp_path / "into" / "small").read_bytes() == b"hello"


def test_nobody_there_is_a_connection_error(tmp_path, folder):
    with receiver(tmp_path / "into") as receiving:
        ticket = receiving.ticket
    with pytest.raises(ConnectionError) as unreachable:
        rc3.send(folder, ticket, give_up_after="1s")
    assert isinstance(unreachable.value, rc3.ConnectionError)
    with pytest.raises(rc3.Error, match="no-such-directory"):
        rc3.Receiver(tmp_path / "no-such-directory")
    with pytest.raises(rc3.Error, match="no-such-file"):
        rc3.send(tmp_path / "no-such-file", ticket)
    with pytest.raises(rc3.UsageError, match="closed"):
        receiving.recv()


def test_a_failure_is_the_last_report_and_nothing_waits_for_another(monkeypatch):
    # A wait would be a TypeError.
    monkeypatch.setattr("rc3._transfer._PATIENCE", "none")
    with pytest.raises(rc3.UsageError):
        rc3.send("file", "rc3://damaged")
    with pytest.raises(rc3.UsageError):
        asyncio.run(rc3.send_async("file", "rc3://damaged"))


def test_six_hundred_operations_leave_threads_for_a_transfer(tmp_path, folder):
    async def run():
        async with receiver(tmp_path / "into") as receiving:
            waiting = [asyncio.create_task(receiving.recv_async()) for _ in range(600)]
            await asyncio.sleep(0)
            sent = await asyncio.wait_for(rc3.send_async(folder, receiving.ticket), 30)
            assert sent.files == 3
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(waiting)
        assert sum(task.exception() is None for task in waiting) == 1

    asyncio.run(run())


def test_an_exception_in_progress_ends_the_transfer(tmp_path, folder):
    class Enough(Exception):
        pass

    def note(event):
        raise Enough

    with receiver(tmp_path / "into") as receiving:
        getting = threading.Thread(target=lambda: pytest.raises(rc3.Error, receiving.recv))
        getting.start()
        with pytest.raises(Enough):
            rc3.send(folder, receiving.ticket, progress=note)
        receiving.close()
        getting.join()


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_a_keyboard_interrupt_ends_a_call_within_a_second(tmp_path, folder, python, side):
    into = tmp_path / "into"
    into.mkdir()
    if side == "receiver":
        process = python(RECEIVE, into)
    else:
        # Nobody receives, so the sender waits for an answer.
        waiting = receiver(into)
        process = python(SEND, waiting.ticket, folder)
    process.stdout.readline()
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=10)
    assert time.monotonic() - began < 1.5
    assert "KeyboardInterrupt" in error
    if side == "sender":
        waiting.close()


COMMAND = os.environ.get("RC3_COMMAND")


@pytest.mark.skipif(not COMMAND, reason="RC3_COMMAND names no rc3 for the other host")
def test_copies_go_both_ways(tmp_path, folder):
    # As ssh: the host, and a command for its shell, which begins at the home directory.
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift\ncd "${0%/*}" && SSH_CONNECTION="127.0.0.1 1 127.0.0.1 2" exec sh -c "$*"\n')
    ssh.chmod(0o755)
    options = {"ssh": shlex.quote(str(ssh)), "rc3_path": COMMAND}
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    assert rc3.copy(folder, "host:there", **options).files == 3
    assert tree(tmp_path / "there" / "folder") == tree(folder)
    asyncio.run(rc3.copy_async("host:there/folder", tmp_path / "here", **options))
    assert tree(tmp_path / "here" / "folder") == tree(folder)
    with pytest.raises(rc3.Error) as missing:
        rc3.copy(folder, "host:there", ssh="no-such-ssh")
    assert missing.value.exit_code == 8
    with pytest.raises(rc3.UsageError, match="neither side"):
        rc3.copy(folder, "there")
