"""Mistakes in TLS files and settings, each said at start in words that name file and setting."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization

from queryable_state.client import InvalidRequestError, QueryableStateClient, Tls
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.security.reloaded import Reloaded

if TYPE_CHECKING:
    from tests.security.authority import Authority


def refused(settings: TlsSettings) -> str:
    """The text with which a server refuses to start."""
    with pytest.raises(InvalidRequestError) as refusal:
        ServerTls(settings)
    return refusal.value.message


def test_a_missing_file_is_named_with_its_setting(authority: Authority) -> None:
    settings = authority.settings()
    for name in ("tls_certificate", "tls_key", "tls_ca"):
        given: dict[str, Any] = {name: "/no/such.pem"}
        text = refused(replace(settings, **given))
        assert "cannot read /no/such.pem" in text
        assert f"spark.queryable_state.{name} (--{name.replace('_', '-')})" in text
        assert "No such file" in text


def test_a_key_of_another_certificate_is_refused(authority: Authority) -> None:
    settings = authority.settings()
    _, other = authority.write("other")
    text = refused(replace(settings, tls_key=other))
    assert f"the key {other}" in text
    assert "does not belong to the certificate" in text


@pytest.mark.parametrize("days", [-1, -30])
def test_an_expired_certificate_is_refused_with_its_date(authority: Authority, days: int) -> None:
    text = refused(authority.settings(days=days))
    assert "expired on 20" in text
    assert "127.0.0.1, localhost" in text or "localhost, 127.0.0.1" in text
    assert "renew it" in text


def test_a_certificate_that_ends_soon_is_a_warning(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    ServerTls(authority.settings(days=3))
    [line] = [each for each in caplog.records if "ends in 2 days" in each.getMessage()]
    assert line.levelno == logging.WARNING


def test_an_encrypted_key_is_refused_without_a_prompt(authority: Authority) -> None:
    settings = authority.settings()
    path = Path(settings.tls_key)
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    assert "is encrypted: decrypt it" in refused(settings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tls_certificate", "has no certificate in PEM"),
        ("tls_key", "has no key in PEM"),
        ("tls_ca", "has no certificates in PEM"),
    ],
)
def test_a_file_that_is_no_pem_file_is_refused(authority: Authority, name: str, text: str) -> None:
    settings = authority.settings()
    Path(getattr(settings, name)).write_text("hello")
    assert text in refused(settings)


def test_one_file_may_hold_certificate_and_key(authority: Authority) -> None:
    settings = authority.settings()
    certificate = Path(settings.tls_certificate)
    certificate.write_text(Path(settings.tls_key).read_text() + certificate.read_text())
    ServerTls(replace(settings, tls_key=""))


def test_settings_that_contradict_each_other_are_refused(authority: Authority) -> None:
    with pytest.raises(InvalidRequestError, match=r"TLS needs a certificate"):
        TlsSettings(tls="on")
    with pytest.raises(InvalidRequestError, match=r"no authority says which certificates"):
        replace(authority.settings(mutual=True), tls_ca="")
    assert not TlsSettings().uses_tls
    assert TlsSettings(tls_certificate="x").uses_tls
    assert not TlsSettings(tls="off", tls_certificate="x").uses_tls


def test_a_client_names_its_argument() -> None:
    with pytest.raises(InvalidRequestError, match=r"Tls\(ca=\.\.\.\) \(--tls-ca\)"):
        QueryableStateClient("localhost", tls=Tls(ca="/no/such.pem"))
    with pytest.raises(InvalidRequestError, match="is set, and Tls"):
        QueryableStateClient("localhost", tls=Tls(key="/no/such.pem"))
    with pytest.raises(InvalidRequestError, match="give True, False or Tls"):
        QueryableStateClient("localhost", tls="yes")  # type: ignore[arg-type]


def test_a_value_is_made_again_when_a_file_changes_and_only_then(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("1")
    made: list[int] = []

    def make() -> int:
        made.append(int(file.read_text()))
        return made[-1]

    value = Reloaded([str(file), ""], make)
    assert (value.get(), value.get(), value.generation, made) == (1, 1, 0, [1])
    file.write_text("22")
    assert (value.get(), value.get(), value.generation, made) == (22, 22, 1, [1, 22])


def test_a_broken_change_keeps_the_value_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("good")

    def make() -> str:
        text = file.read_text()
        if text != "good":
            raise QueryableStateError(f"{text} is not good")
        return text

    value = Reloaded([str(file)], make)
    file.write_text("broken")
    assert [value.get() for _ in range(3)] == ["good"] * 3
    assert [each for each in caplog.messages if "broken is not good" in each] == [
        "changed files are not used, the old ones stay in use: broken is not good"
    ]
    file.unlink()
    assert value.get() == "good"
    file.write_text("good")
    assert value.get() == "good"
    assert value.generation == 1


def test_files_that_could_not_be_read_are_tried_again_and_each_cause_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("1")
    refusals = [PermissionError("not yet"), PermissionError("not yet"), RuntimeError("odd")]

    def make() -> str:
        if file.read_text() == "2" and refusals:
            raise refusals.pop(0)
        return file.read_text()

    value = Reloaded([str(file)], make, retry_s=0.0)
    file.write_text("2")
    assert [value.get() for _ in range(4)] == ["1", "1", "1", "2"]
    assert value.generation == 1
    assert [line[-7:] for line in caplog.messages if "not used" in line] == ["not yet", "se: odd"]


def test_files_that_cannot_be_read_are_not_read_at_every_call(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("1")
    made: list[str] = []

    def make() -> str:
        made.append(file.read_text())
        if made[-1] == "2":
            raise QueryableStateError("broken")
        return made[-1]

    value = Reloaded([str(file)], make)
    file.write_text("2")
    assert [value.get() for _ in range(20)] == ["1"] * 20
    assert made == ["1", "2"]


def test_a_change_of_the_mode_alone_is_a_change(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("1")
    value = Reloaded([str(file)], file.read_text)
    time.sleep(0.02)  # The clock of a file system may tick this slowly.
    file.chmod(0o600)
    value.get()
    assert value.generation == 1
