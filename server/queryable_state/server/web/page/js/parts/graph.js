// The operators of a job as a graph: sources left, each operator in the layer of its longest way.

import { plural } from "../lib/format.js";
import { linkTo } from "../lib/routes.js";
import { html } from "../lib/view.js";

const WIDTH = 208;
const GAP_X = 56;
const GAP_Y = 16;
const LINE = 20;
const MOST_STATES = 5;

function nodesOf(description) {
  const sources = (description.sources ?? []).map((source, index) => ({
    id: `source ${index}`, source, inputs: [], lines: 1,
  }));
  const operators = (description.operators ?? []).map((operator) => ({
    id: operator.uid, operator, lines: 1 + Math.min(operator.states?.length ?? 0, MOST_STATES + 1),
    inputs: [
      ...(operator.inputs ?? []),
      // A source that an input already has reaches this operator through it.
      ...((operator.inputs ?? []).length ? [] : (operator.sources ?? []).map((index) => `source ${index}`)),
    ],
  }));
  return [...sources, ...operators];
}

/** Layer and place of each node, with the size of the drawing. */
export function layOut(nodes) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const layers = [];
  const depthOf = (node, seen = new Set()) => {
    if (node.layer !== undefined || seen.has(node.id)) return node.layer ?? 0;
    seen.add(node.id);
    const inputs = node.inputs.map((id) => known.get(id)).filter(Boolean);
    node.layer = inputs.length ? 1 + Math.max(...inputs.map((input) => depthOf(input, seen))) : node.source ? 0 : 1;
    return node.layer;
  };
  for (const node of nodes) (layers[depthOf(node)] ??= []).push(node);
  const full = layers.filter((layer) => layer?.length);
  let height = 0;
  full.forEach((layer, column) => {
    const middle = (node) => {
      const inputs = node.inputs.map((id) => known.get(id)).filter((input) => input?.y !== undefined);
      return inputs.length ? inputs.reduce((sum, input) => sum + input.y + input.height / 2, 0) / inputs.length : 0;
    };
    layer.sort((one, other) => middle(one) - middle(other));
    let y = 0;
    for (const node of layer) {
      Object.assign(node, { x: column * (WIDTH + GAP_X), y, height: 30 + node.lines * LINE });
      y += node.height + GAP_Y;
    }
    height = Math.max(height, y - GAP_Y);
  });
  for (const layer of full) {
    const last = layer.at(-1);
    const shift = (height - (last.y + last.height)) / 2;
    for (const node of layer) node.y += shift;
  }
  const edges = nodes.flatMap((node) => node.inputs.filter((id) => known.has(id)).map((id) => [known.get(id), node]));
  return { nodes, edges, width: full.length * (WIDTH + GAP_X) - GAP_X, height };
}

function Edge({ from, to }) {
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + from.height / 2, to.x, to.y + to.height / 2];
  const bend = (x2 - x1) / 2;
  return html`<path d=${`M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2 - 5},${y2}`} marker-end="url(#arrow)" />`;
}

function Operator({ operator, job }) {
  const states = operator.states ?? [];
  const failing = (operator.owners ?? []).some((owner) => !owner.server_id || owner.open === false);
  return html`
    <strong>${operator.name || operator.uid}</strong>
    <span class="quiet">${operator.name && operator.uid !== operator.name ? `${operator.uid} · ` : ""}${plural(operator.parallelism ?? 0, "subtask")}${failing ? html` · <span class="mark bad">not all owned</span>` : null}</span>
    ${states.slice(0, MOST_STATES).map((state) => html`<a href=${linkTo("state", { job, state })}>${state}</a>`)}
    ${states.length > MOST_STATES ? html`<span class="quiet">and ${states.length - MOST_STATES} more below</span>` : null}`;
}

export function Graph({ description, job }) {
  const { nodes, edges, width, height } = layOut(nodesOf(description));
  if (!nodes.length) return html`<p class="quiet">Operators appear with the first batch of the job.</p>`;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Graph of sources and operators">
    <div class="graph" style=${{ width: `${width}px`, height: `${height}px` }}>
      <svg width=${width} height=${height} aria-hidden="true">
        <defs><marker id="arrow" viewBox="0 0 6 6" refX="2" refY="3" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0 L6,3 L0,6 z" /></marker></defs>
        ${edges.map(([from, to]) => html`<${Edge} key=${`${from.id}>${to.id}`} from=${from} to=${to} />`)}
      </svg>
      <ol>${nodes.map((node) => html`<li key=${node.id} class=${node.source ? "source" : "operator"}
          style=${{ left: `${node.x}px`, top: `${node.y}px`, width: `${WIDTH}px`, height: `${node.height}px` }}>
        ${node.source ? html`<strong>source</strong><span class="quiet clip" title=${node.source.description}>${node.source.description}</span>`
          : html`<${Operator} operator=${node.operator} job=${job} />`}
      </li>`)}</ol>
    </div>
  </div>`;
}
