"""Objects of the chart: what driver, executors and proxies need to start, and to be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.deploy.rendered_chart import chart_objects, named

if TYPE_CHECKING:
    from collections.abc import Iterable

INSECURE = "security.insecure=true"


def _conf(objects: list[dict[str, Any]]) -> dict[str, str]:
    lines = named(objects, "ConfigMap", "-driver")["data"]["spark.conf"].splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def _executor(objects: list[dict[str, Any]]) -> dict[str, Any]:
    template: dict[str, Any] = yaml.safe_load(
        named(objects, "ConfigMap", "-driver")["data"]["executor.yaml"]
    )
    return template


def _mount_paths(container: dict[str, Any]) -> list[str]:
    return [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "state"]


def test_spark_has_a_class_for_the_scheme_of_the_documented_checkpoint_directory() -> None:
    conf = _conf(chart_objects(INSECURE))
    assert conf["spark.hadoop.fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
    assert conf["spark.hadoop.fs.AbstractFileSystem.s3.impl"] == "org.apache.hadoop.fs.s3a.S3A"


def test_executors_get_credentials() -> None:
    """By environment or by their service account."""
    env = [{"name": "AWS_REGION", "value": "eu-central-1"}]
    env_from = [{"secretRef": {"name": "s3"}}]
    objects = chart_objects(
        INSECURE,
        executors={"env": env, "envFrom": env_from},
        serviceAccounts={"annotations": {"role-arn": "orders"}},
    )
    [executor] = _executor(objects)["spec"]["containers"]
    assert (executor["env"], executor["envFrom"]) == (env, env_from)
    for name in ("-driver", "-executor"):
        account = named(objects, "ServiceAccount", name)
        assert account["metadata"]["annotations"] == {"role-arn": "orders"}


def test_a_job_is_stopped_and_started_from_a_savepoint_by_values() -> None:
    stopped = named(chart_objects(INSECURE, "driver.running=false"), "StatefulSet", "-driver")
    assert stopped["spec"]["replicas"] == 0
    objects = chart_objects(INSECURE, "driver.savepoint=/state/savepoints/one")
    assert named(objects, "StatefulSet", "-driver")["spec"]["replicas"] == 1
    assert _conf(objects)["spark.queryable_state.savepoint_path"] == "/state/savepoints/one"
    assert "spark.queryable_state.savepoint_path" not in _conf(chart_objects(INSECURE))


def test_a_job_from_a_savepoint_may_have_another_directory_of_the_same_volume() -> None:
    values = ("stateVolume.claimName=claim", "stateVolume.mountPath=/state")
    objects = chart_objects(INSECURE, *values, "checkpointDirectory=/state/v2")
    [driver] = named(objects, "StatefulSet", "-driver")["spec"]["template"]["spec"]["containers"]
    [executor] = _executor(objects)["spec"]["containers"]
    assert _mount_paths(driver) == _mount_paths(executor) == ["/state"]
    assert _conf(objects)["spark.queryable_state.checkpoint_directory"] == "/state/v2"


def test_an_ended_job_is_not_run_again_and_a_broken_driver_can_be_upgraded() -> None:
    driver = named(chart_objects(INSECURE), "StatefulSet", "-driver")["spec"]
    assert driver["podManagementPolicy"] == "Parallel"
    [container] = driver["template"]["spec"]["containers"]
    assert container["args"][0] == "job"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (1_000_000, "1000000"),
        (134_217_728, "134217728"),
        (0.25, "0.25"),
        (True, "true"),
        ("8m", "8m"),
    ],
)
def test_a_value_of_sparks_configuration_is_written_as_given(given: object, written: str) -> None:
    objects = chart_objects(INSECURE, driver={"sparkConf": {"spark.some.key": given}})
    assert _conf(objects)["spark.some.key"] == written


def test_the_pods_change_with_the_secret_and_the_chart_makes_none() -> None:
    checksums = set()
    for secret in ("one", "two"):
        objects = chart_objects(INSECURE, f"security.jobSecret={secret}")
        assert not [each for each in objects if each["kind"] == "Secret"]
        of_pods = {
            named(objects, kind, name)["spec"]["template"]["metadata"]["annotations"][
                "checksum/job-secret"
            ]
            for kind, name in (("StatefulSet", "-driver"), ("Deployment", "-proxy"))
        }
        assert len(of_pods) == 1
        checksums |= of_pods
    assert len(checksums) == 2


def test_one_name_resolves_to_all_proxies() -> None:
    objects = chart_objects(INSECURE)
    service = named(objects, "Service", "-proxies")["spec"]
    assert service["clusterIP"] == "None"
    assert "publishNotReadyAddresses" not in service
    assert service["selector"] == named(objects, "Service", "-proxy")["spec"]["selector"]


def test_the_driver_may_query_executors() -> None:
    rules = named(chart_objects(INSECURE), "NetworkPolicy", "-executor")["spec"]["ingress"]
    [of_driver] = [rule for rule in rules if _components(rule["from"]) == ["driver"]]
    assert {port["port"] for port in of_driver["ports"]} == {7079, 9067, 9068, 9069, 9070, 9071}


def _components(peers: Iterable[dict[str, Any]]) -> list[str]:
    return [peer["podSelector"]["matchLabels"].get("app.kubernetes.io/component") for peer in peers]


def test_labels_fit_with_the_longest_release_name() -> None:
    """Kubernetes labels the driver's pod with the name of its set and an 11 character hash."""
    driver = named(chart_objects(INSECURE, release="r" * 53), "StatefulSet", "-driver")
    assert len(driver["metadata"]["name"]) + 11 <= 63
