#!/bin/bash
# Entry point of the image `spark`. `driver` and `executor` are what Spark on Kubernetes passes to an
# image; `job` and the options of spark-submit run a job that is not repeated once it has ended;
# anything else is a command, such as spark-submit or spark-class.
set -euo pipefail

# Runs a command, passes SIGTERM on to it, and sets `code` to its exit code, and `stopped` after a
# SIGTERM.
attended() {
    code=0
    stopped=
    "$@" &
    program=$!
    trap 'stopped=yes; [ -z "$program" ] || kill -TERM "$program" 2>/dev/null || true' TERM INT
    # A trap interrupts `wait`.
    wait "$program" || code=$?
    while kill -0 "$program" 2>/dev/null; do
        code=0
        wait "$program" || code=$?
    done
    program=
}

case ${1:-} in
    driver)
        shift
        exec tini -s -- spark-submit \
            --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
            --deploy-mode client "$@"
        ;;
    executor)
        # Spark numbers the options: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...
        options=()
        number=0
        while name=SPARK_JAVA_OPT_$number && [ -n "${!name+set}" ]; do
            options+=("${!name}")
            number=$((number + 1))
        done
        exec tini -s -- "$0" attended-executor java "${options[@]}" \
            -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
            -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*:${SPARK_DIST_CLASSPATH:-}" \
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" \
            --executor-id "$SPARK_EXECUTOR_ID" \
            --cores "$SPARK_EXECUTOR_CORES" \
            --app-id "$SPARK_APPLICATION_ID" \
            --hostname "$SPARK_EXECUTOR_POD_IP" \
            --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
            --podName "$SPARK_EXECUTOR_POD_NAME"
        ;;
    attended-executor)
        # A state server sees that its executor has ended: it answers what it has received, for at
        # most 10 s, and tells the coordinator that it leaves, so that others take over its keys at
        # once. The end of this process would kill it before.
        shift
        attended "$@"
        end=$((SECONDS + 15))
        while [ "$SECONDS" -lt "$end" ] && pgrep -f -- '-m queryable_state\.server\.state_server' >/dev/null; do
            sleep 0.2
        done
        exit "$code"
        ;;
    job)
        shift
        exec tini -s -- "$0" attended-job spark-submit "$@"
        ;;
    attended-job)
        # What restarts containers, such as a StatefulSet, restarts one that ends with 0 too. A job
        # that was stopped with a savepoint would go on behind it.
        shift
        attended "$@"
        if [ "$code" = 0 ] && [ -z "$stopped" ]; then
            echo "entrypoint: the job has ended; it is not run again until this container is replaced" >&2
            while [ -z "$stopped" ]; do
                sleep 1 &
                wait $! || true
            done
        fi
        exit "$code"
        ;;
    *)
        exec tini -s -- "$@"
        ;;
esac
