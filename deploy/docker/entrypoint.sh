#!/bin/bash
# Entry point of the image `spark`. `driver` and `executor` are what Spark on Kubernetes passes to an
# image; anything else is a command, such as spark-submit or spark-class.
set -euo pipefail

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
        exec tini -s -- java "${options[@]}" \
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
    *)
        exec tini -s -- "$@"
        ;;
esac
