"""The cause of a failed run, out of the text of Spark's error."""

from __future__ import annotations

from queryable_state.streaming.spark.queries.failure import run_failure

OF_A_FUNCTION = """Job aborted: Task 0 failed 4 times
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
queryable_state.wire.errors.UserFunctionError: operator 'count' (uid c1), subtask 0 of 2, batch 7: \
process_element failed for key 'sensor_1': ValueError: no value (/app/job.py:9 in f), at the \
element Row(id='sensor_1', value=None)
[queryable-state: USER_FUNCTION_FAILED]
The function's own traceback:
Traceback (most recent call last):
  File "/app/job.py", line 9, in f
ValueError: no value
"""


def test_the_record_key_operator_and_batch_of_a_user_function_are_found() -> None:
    failure = run_failure(OF_A_FUNCTION)
    assert failure.message == ("process_element failed: ValueError: no value (/app/job.py:9 in f)")
    assert (failure.operator, failure.batch_id) == ("count", 7)
    assert failure.key_json == '"sensor_1"'
    assert failure.record == "Row(id='sensor_1', value=None)"
    assert failure.traceback.endswith("ValueError: no value")


def test_the_innermost_cause_of_a_failure_of_spark_is_found() -> None:
    text = (
        "Job aborted due to stage failure\n\tat org.apache.spark.X\nCaused by: a.B: wrapper\n"
        "Caused by: java.io.FileNotFoundException: /in/1.json\n\tat java.base"
    )
    failure = run_failure(text)
    assert failure.message == "java.io.FileNotFoundException: /in/1.json"
    assert (failure.reason, failure.batch_id) == ("", -1)
