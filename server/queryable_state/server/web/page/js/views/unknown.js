// The answer to an address that names no view.

import { linkTo } from "../lib/routes.js";
import { html } from "../lib/view.js";
import { Notice, Title } from "../parts/ui.js";

export function UnknownView() {
  return html`<${Title} text="No such view" />
    <${Notice} message="This address names no view of this page; it may be cut or misspelt." />
    <p><a href=${linkTo("jobs")}>All jobs</a></p>`;
}
