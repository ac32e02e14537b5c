// All state servers of the driver.

import { usePolled, useNow } from "../lib/polling.js";
import { html } from "../lib/view.js";
import { ServersTable } from "../parts/servers_table.js";
import { Answer, Notice, Title } from "../parts/ui.js";
import { duration } from "../lib/format.js";

export function ServersView() {
  const polled = usePolled("servers", null, 2000);
  const now = useNow();
  return html`<${Title} text="Servers" />
    <${Answer} polled=${polled}>${(data) => html`
      ${data.age_ms ? html`<${Notice} kind="warn" message=${`The driver does not answer. This is what was known ${duration(data.age_ms)} ago.`} step="Check that the driver runs; its jobs restart with it." />` : null}
      <${ServersTable} servers=${data.servers ?? []} now=${data.as_of_ms || now} />`}<//>`;
}
