#!/bin/sh
# Prints the JAVA_HOME that Spark is to use: that of JAVA_HOME or of `java` on PATH where it is
# Java 17 or newer, else the one `make setup` put into .venv. Ends with 1 where there is none.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

# The home of the Java that $1 starts, empty when it is older than 17. An old or missing Java may
# be only a stub, as on macOS, so nothing but its own answer counts.
home_of() {
    "$1" -XshowSettings:properties -version 2>&1 | awk -F' = ' '
        $1 ~ /java\.home$/ { home = $2 }
        $1 ~ /java\.specification\.version$/ { version = $2 + 0 }
        END { if (version >= 17) print home }
    '
}

for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)"; do
    if [ -n "$java" ] && [ -x "$java" ]; then
        # The bundled runtime answers with its own home, which lacks the wrapper.
        [ "$java" = "$root/.venv/java/bin/java" ] && continue
        home=$(home_of "$java")
        if [ -n "$home" ]; then
            printf '%s\n' "$home"
            exit 0
        fi
    fi
done

if "$root/.venv/java/bin/java" -version >/dev/null 2>&1; then
    printf '%s\n' "$root/.venv/java"
    exit 0
fi
exit 1
