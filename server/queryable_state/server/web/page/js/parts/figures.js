// The figures of a job in one line, and their course over the last hour.

import { ago, clock, count, duration, rate, utc } from "../lib/format.js";
import { html, useMemo } from "../lib/view.js";
import { Chart } from "./chart.js";

export function Figure({ name, value, detail, title, kind }) {
  return html`<div title=${title}><dt>${name}</dt><dd class=${kind}>${value}${detail ? html`<small>${detail}</small>` : null}</dd></div>`;
}

function watermarkAge(watermark, asOf) {
  return watermark?.watermark_ms ? duration(asOf - watermark.watermark_ms) : "–";
}

/** What waits in the sources; empty: nothing, or they do not tell. */
function waiting(sources) {
  return sources.filter((each) => each.backlog).map((each) => `${count(each.backlog)} ${each.backlog_unit} wait`).join(", ");
}

export function Figures({ description, now }) {
  const { info, rates, last_batch: batch = {}, watermark = {}, checkpoints = {} } = description;
  const asOf = description.as_of_ms || now;
  const completed = checkpoints.last_completed;
  const waits = waiting(description.sources ?? []);
  const running = batch.running_batch_id >= 0 && batch.running_since_ms ? asOf - batch.running_since_ms : null;
  return html`<dl class="figures">
    <${Figure} name="rows per second" value=${rates ? rate(rates.rows_per_s ?? 0) : "–"} detail=${waits || (rates ? "in the last minute" : "")} kind=${waits ? "warn" : ""} title=${rates ? `newest batch: ${count(rates.rows ?? 0)} rows` : "no driver reports it"} />
    <${Figure} name="batch" value=${rates ? duration(batch.batch_ms ?? 0) : "–"} detail=${running !== null ? `running for ${duration(running)}` : batch.ended_at_ms ? `ended ${ago(batch.ended_at_ms, asOf)}` : ""} />
    <${Figure} name="commit" value=${rates ? duration(batch.commit_ms ?? 0) : "–"} detail=${rates || batch.lag_ms ? `visible after ${duration(batch.lag_ms ?? 0)}` : ""} />
    <${Figure} name="watermark age" value=${watermarkAge(watermark, asOf)} detail=${watermark.moved_at_ms ? `moved ${ago(watermark.moved_at_ms, asOf)}` : watermark.watermark_ms ? "" : "no event time"} title=${watermark.watermark_ms ? utc(watermark.watermark_ms) : ""} />
    <${Figure} name="checkpoint" value=${completed ? ago(completed.at_ms, asOf) : rates ? "none" : "–"} detail=${checkpoints.durable === false ? "in memory only" : checkpoints.failures ? `${checkpoints.failures} failed` : ""} kind=${checkpoints.failures_in_a_row ? "bad" : ""} />
    <${Figure} name="committed batch" value=${info.committed_batch >= 0 ? count(info.committed_batch) : "none"} detail=${description.restarts ? `${description.restarts} restarts` : info.started_at_ms ? `since ${clock(info.started_at_ms)}` : ""} />
  </dl>`;
}

const seconds = (ms) => (ms >= 1000 ? `${(ms / 1000).toFixed(ms >= 10_000 ? 0 : 1)} s` : `${Math.round(ms)} ms`);
const short = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : value >= 1e4 ? `${Math.round(value / 1000)} k` : rate(value));

/** Rates between the points, durations, and how far the watermark is behind the end of the batch. */
export function seriesOf(history) {
  const times = history.map((point) => point.at_ms);
  return {
    times,
    rows: history.map((point, index) => {
      const passed = index ? point.at_ms - history[index - 1].at_ms : 0;
      return passed > 0 ? ((point.rows ?? 0) * 1000) / passed : null;
    }),
    batch: history.map((point) => point.batch_ms ?? 0),
    commit: history.map((point) => point.commit_ms ?? 0),
    behind: history.map((point) => (point.watermark_ms ? point.at_ms - point.watermark_ms : null)),
  };
}

export function History({ history }) {
  const { times, rows, batch, commit, behind } = useMemo(() => seriesOf(history), [history]);
  const lines = useMemo(() => ({
    rows: [{ label: "rows per second", values: rows }],
    times: [{ label: "batch", values: batch }, { label: "commit", values: commit }],
    behind: [{ label: "behind", values: behind }],
  }), [rows]);
  return html`<div class="charts">
    <${Chart} title="Rows per second" group="job" times=${times} format=${short} series=${lines.rows} />
    <${Chart} title="Time of batches" group="job" times=${times} format=${seconds} series=${lines.times} />
    ${behind.some((each) => each !== null) ? html`<${Chart} title="Watermark behind" group="job" times=${times} format=${duration} series=${lines.behind} />` : null}
  </div>`;
}
