"""The job's secret, from a file or a setting."""

from __future__ import annotations

from pathlib import Path

from queryable_state.wire.errors import InvalidRequestError

SECRET_VARIABLE = "QUERYABLE_STATE_SECRET"


def secret_of(file: str, secret: str) -> str:
    """The content of the file if one is named, else the secret; without surrounding white space.

    Raises InvalidRequestError if the file cannot be read, or if there is no secret.
    """
    if file:
        try:
            secret = Path(file).read_text()
        except (OSError, UnicodeDecodeError) as problem:
            raise InvalidRequestError(f"cannot read --secret-file {file}: {problem}") from problem
    secret = secret.strip()
    if not secret:
        where = f"the file {file} is empty" if file else f"{SECRET_VARIABLE} is not set"
        raise InvalidRequestError(
            f"the command needs the job's secret: {where}; give --secret-file or set "
            f"{SECRET_VARIABLE}"
        )
    return secret
