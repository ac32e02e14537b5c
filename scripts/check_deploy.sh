#!/bin/sh
# Checks deploy/ as far as that goes without an engine: Dockerfile, compose file, chart, unit.
#
#   scripts/check_deploy.sh
#
# What cannot be checked here, because a tool is missing, is said and is no failure, unless CI is set.
set -eu

cd -- "$(dirname -- "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

has() {
    if command -v "$1" >/dev/null 2>&1; then
        return 0
    fi
    echo "left out: $2 ($1 is missing)"
    [ -z "${CI:-}" ] || exit 1
    return 1
}

echo "== Dockerfile: hadolint"
hadolint --failure-threshold info deploy/docker/Dockerfile

echo "== shell scripts"
for script in deploy/docker/entrypoint.sh deploy/*/*.sh scripts/*.sh; do
    case $(head -n 1 "$script") in
        *bash) bash -n "$script" ;;
        *) sh -n "$script" ;;
    esac
done

if has compose-go "schema and references of compose.yaml"; then
    echo "== compose.yaml: compose-go"
    compose-go deploy/compose.yaml >"$folder/compose"
fi

# Renders the chart with further options, and checks every object against the schemas of Kubernetes.
check_chart() {
    name=$1
    shift
    set -- --set security.jobSecret=job "$@"
    helm lint --quiet --strict "$chart" "$@"
    for version in 1.29 1.33; do
        helm template try "$chart" --kube-version "$version.0" "$@" >"$folder/$name.yaml"
        # The pod template of executors stands in a ConfigMap.
        python -c 'import sys, yaml
for item in yaml.safe_load_all(open(sys.argv[1])):
    if item and item["kind"] == "ConfigMap":
        print(item["data"]["executor.yaml"])' "$folder/$name.yaml" >"$folder/$name-executor.yaml"
        kubernetes-validate --quiet --strict -k "$version" \
            "$folder/$name.yaml" "$folder/$name-executor.yaml"
    done
    echo "$name: $(grep -c '^kind:' "$folder/$name.yaml") objects"
}

# Fails unless the chart refuses the values, with a text.
refused_chart() {
    text=$1
    shift
    if helm template try "$chart" --kube-version 1.33.0 "$@" >"$folder/refused" 2>&1; then
        echo "error: the chart accepts: $*" >&2
        exit 1
    fi
    grep -q "$text" "$folder/refused" || {
        cat "$folder/refused" >&2
        echo "error: the chart does not say '$text' to: $*" >&2
        exit 1
    }
}

if has helm "the chart"; then
    echo "== chart: helm lint, helm template, kubernetes-validate"
    chart=deploy/helm/queryable-state
    check_chart insecure --set checkpointDirectory=s3://bucket/state --set security.insecure=true
    check_chart secure --set checkpointDirectory=/state --set stateVolume.claimName=state \
        --set security.tlsSecret=tls --set security.accessSecret=access \
        --set networkPolicy.clientsReachExecutors=true
    check_chart no-proxy --set checkpointDirectory=s3://bucket/state --set proxy.enabled=false \
        --set security.insecure=true --set networkPolicy.enabled=false
    check_chart cloud --set checkpointDirectory=s3://bucket/state --set security.insecure=true \
        --set 'serviceAccounts.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::1:role/orders' \
        --set-json 'executors.env=[{"name": "AWS_REGION", "value": "eu-central-1"}]' \
        --set-json 'executors.envFrom=[{"secretRef": {"name": "s3"}}]' \
        --set driver.running=false --set driver.savepoint=s3://bucket/savepoints/savepoint-1
    refused_chart checkpointDirectory --set security.insecure=true
    refused_chart security.insecure=true --set checkpointDirectory=s3://bucket/state
    refused_chart 'set security.jobSecret' --set security.insecure=true \
        --set checkpointDirectory=s3://bucket/state
    refused_chart 'the chart sets spark.driver.port itself' --set security.insecure=true \
        --set security.jobSecret=job \
        --set checkpointDirectory=s3://bucket/state --set 'driver.sparkConf.spark\.driver\.port=1'
fi

if has systemd-analyze "the unit"; then
    echo "== unit: systemd-analyze"
    # Its program is not installed here.
    sed 's,^ExecStart=[^ ]*,ExecStart=/bin/true,' deploy/systemd/queryable-state-proxy.service \
        >"$folder/queryable-state-proxy.service"
    systemd-analyze verify "$folder/queryable-state-proxy.service"
    # An exposure above 2.0 of 10 fails.
    systemd-analyze security --offline=true --no-pager --threshold=20 \
        "$folder/queryable-state-proxy.service" >"$folder/exposure" || {
        cat "$folder/exposure"
        exit 1
    }
    tail -n 1 "$folder/exposure"
fi
echo "deploy: checked"
