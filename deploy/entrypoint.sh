#!/bin/sh
# One image, two roles. `executor`: what Spark's Kubernetes scheduler starts (its words are in SPARK_…
# variables). Anything else: the command `sequencer` with these words; the driver is `run`.
set -eu

if [ "${1:-}" != executor ]; then
    exec sequencer "$@"
fi

# Options come one by one, as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …, and may have blanks.
set --
number=0
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
    number=$((number + 1))
done

if [ -n "${SPARK_EXTRA_CLASSPATH:-}" ]; then
    SPARK_CLASSPATH="$SPARK_EXTRA_CLASSPATH:${SPARK_CLASSPATH:-}"
fi
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" \
    "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
