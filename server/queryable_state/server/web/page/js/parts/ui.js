// Small pieces that every view uses: sections, notices, marks, empty and failed states.

import { words } from "../lib/format.js";
import { linkTo } from "../lib/routes.js";
import { html, useEffect, useRef } from "../lib/view.js";

const NEXT_STEPS = {
  UNREACHABLE: "Check that the process still runs and that this address is right. The page tries again by itself.",
  UNAUTHENTICATED: "Enter a token that the server's access file or identity provider knows.",
  PERMISSION_DENIED: "Ask the owner of the access file for a grant, or use another token.",
  UNKNOWN_JOB: "Go back to the list of jobs: it may have been started under another name.",
  UNKNOWN_STATE: "Check the name in the job's list of states. A state appears with the first batch of its job.",
  UNKNOWN_KEY: "Check the spelling, or scan the state. The key may also have expired or been cleared.",
  KEY_TYPE_MISMATCH: "Write the key as its type needs it; the example beside the field shows how.",
  INVALID_REQUEST: "Correct the request as the message says.",
  AMBIGUOUS_JOB: "Open the state from its job in the list of jobs.",
  NO_OWNER: "Wait: the key groups are being given to another server. The page tries again by itself.",
  BEHIND: "Wait for the next commit.",
  OVERLOADED: "Wait a moment, or ask for less. The page tries again by itself.",
  UNAVAILABLE: "Wait: a server or the driver cannot be reached at the moment. The page tries again by itself.",
  DEADLINE_EXCEEDED: "Try again; open “explain” to see which step took the time.",
  VERSION_GONE: "Start over: the batch that this was read from is compacted.",
  STATE_LOST: "See the findings of the job: older state is gone, and newer answers may be incomplete.",
  CORRUPT: "See the findings of the job, and restore from a savepoint or an older checkpoint.",
  INTERNAL: "See the server's log: it has the trace.",
};

const HEALTH = {
  HEALTHY: ["good", "healthy"],
  ATTENTION: ["warn", "attention"],
  RESTARTING: ["warn", "restarting"],
  FAILING: ["bad", "failing"],
  ENDED: ["idle", "ended"],
  UNREACHABLE: ["bad", "unreachable"],
};
const STATUS = { RUNNING: ["good", "running"], FINISHED: ["idle", "finished"], FAILED: ["bad", "failed"] };

export function Mark({ kind, children }) {
  return html`<span class=${`mark ${kind}`}>${children}</span>`;
}

/** The health of a job; of an older server, which knows none, its status. */
export function Health({ info }) {
  const [kind, text] = HEALTH[info.health] ?? STATUS[info.status] ?? ["idle", "unknown"];
  return html`<${Mark} kind=${kind}>${text}<//>`;
}

/** A rank for sorting: the worst first. */
export function urgency(info) {
  const order = ["FAILING", "UNREACHABLE", "RESTARTING", "ATTENTION", "HEALTHY", "ENDED"];
  const known = order.indexOf(info.health);
  if (known >= 0) return known;
  return { FAILED: 0, RUNNING: 4 }[info.status] ?? 5;
}

export function Block({ title, aside, children, id }) {
  const label = id ?? title.toLowerCase().replace(/[^a-z]+/g, "-");
  return html`<section class="block" aria-labelledby=${`h-${label}`}>
    <header><h2 id=${`h-${label}`}>${title}</h2>${aside ? html`<span class="aside">${aside}</span>` : null}</header>
    ${children}
  </section>`;
}

/** A sentence of the server; what it has between backticks is code. */
export function Prose({ text }) {
  return (text ?? "").split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

export function Notice({ kind = "", message, step, children, role }) {
  return html`<div class=${`notice ${kind}`} role=${role}>
    <p><${Prose} text=${message} /></p>${step ? html`<p><b>Next:</b> <${Prose} text=${step} /></p>` : null}${children}
  </div>`;
}

/** An error of the server: what failed, and what to do. */
export function Failure({ error, again }) {
  const missing = error.reason === "UNKNOWN_KEY";
  return html`<${Notice} kind=${missing ? "" : "bad"} role="alert" message=${error.message} step=${NEXT_STEPS[error.reason]}>
    ${error.candidates?.length ? html`<p class="quiet">There are: ${error.candidates.slice(0, 12).join(", ")}</p>` : null}
    <p class="quiet"><code>${words(error.reason)}</code>${again ? html` · <button class="plain" onClick=${again}>Try again</button>` : null}</p>
  <//>`;
}

/** The content of a polled answer: waiting, failed without any answer, or `children(data)`. */
export function Answer({ polled, children, waiting = "Loading …" }) {
  if (polled.data === null) {
    if (polled.error) return html`<${Failure} error=${polled.error} again=${polled.again} />`;
    return html`<p class="quiet" role="status">${waiting}</p>`;
  }
  const stale = polled.error && polled.error.reason !== "UNREACHABLE";
  return html`${stale ? html`<${Failure} error=${polled.error} again=${polled.again} />` : null}${children(polled.data)}`;
}

/** The title of a view, with the way to it. Takes the focus when the view opens, for screen readers. */
export function Title({ text, crumbs = [], children, lead }) {
  const heading = useRef(null);
  const trail = crumbs.map((crumb) => crumb.text).join(" · ");
  useEffect(() => {
    document.title = [text, trail, "Queryable state"].filter(Boolean).join(" · ");
  }, [text, trail]);
  useEffect(() => {
    if (document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
  }, []);
  return html`<div class="title">
    ${crumbs.length ? html`<nav class="crumbs" aria-label="Way to this view"><ol>
      ${crumbs.map((crumb) => html`<li><a href=${crumb.href}>${crumb.text}</a></li>`)}
    </ol></nav>` : null}
    <h1 tabindex="-1" ref=${heading}>${text}</h1>${lead}
    ${children ? html`<div class="actions">${children}</div>` : null}
  </div>`;
}

/** The way to a job or a state. */
export function jobCrumbs(job, state) {
  const crumbs = [{ text: "Jobs", href: linkTo("jobs") }];
  if (job) crumbs.push({ text: job, href: linkTo("job", { job }) });
  if (state) crumbs.push({ text: state, href: linkTo("state", { job, state }) });
  return crumbs;
}
