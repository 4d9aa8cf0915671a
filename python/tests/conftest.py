"""Certificates and other processes for the tests."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import trustme


@pytest.fixture(scope="session", autouse=True)
def no_state_of_the_user(tmp_path_factory):
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def identity(tmp_path_factory):
    """PEM files: an authority, and a certificate for `localhost` with its key."""
    directory = tmp_path_factory.mktemp("identity")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    files = SimpleNamespace(
        ca=directory / "ca.pem", certificate=directory / "certificate.pem", key=directory / "key.pem"
    )
    authority.cert_pem.write_to_path(files.ca)
    issued.private_key_pem.write_to_path(files.key)
    for part in issued.cert_chain_pems:
        part.write_to_path(files.certificate, append=True)
    return files


@pytest.fixture
def python():
    """Starts scripts in other interpreters; kills them at the end."""
    started = []

    def start(script, *arguments):
        # A shell that starts the tests in the background has them ignore interrupts, and interpreters inherit that.
        script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + script
        command = [sys.executable, "-u", "-c", script, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
