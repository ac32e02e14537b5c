// Looks up keys of a state, and counts its keys with a scan, with plain gRPC:
//
//   node example.mjs HOST:PORT STATE KEY...
//
// HOST:PORT is any proxy or state server of the job. A KEY is JSON of the key's type; for strings
// the plain word works, too. PROTOS is the folder with the protos, else ../../../proto.
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const protos = process.env.PROTOS ?? fileURLToPath(new URL("../../../proto", import.meta.url));
const definition = loadSync("queryable_state/v1/query.proto", {
  includeDirs: [protos],
  keepCase: true,
  enums: String,
  longs: Number, // batch ids and times are far below 2^53
  defaults: true,
});
const { QueryableState } = grpc.loadPackageDefinition(definition).queryable_state.v1;

// gRPC retries calls that did not reach a server, and those a server refused while state moves.
const retries = {
  methodConfig: [
    {
      name: [{ service: "queryable_state.v1.QueryableState" }],
      waitForReady: true,
      retryPolicy: {
        maxAttempts: 5,
        initialBackoff: "0.05s",
        maxBackoff: "1s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
};

/** Prints the values of many keys, each with the age of the batch it was read from. */
async function lookUp(client, state, words) {
  const request = { state_name: state, keys_json: words.map(asJson) };
  const answer = await new Promise((resolve, reject) => {
    client.BatchGetKvState(request, { deadline: Date.now() + 5000 }, (error, found) =>
      error ? reject(error) : resolve(found),
    );
  });
  answer.results.forEach((result, i) => {
    if (result.error?.reason === "UNKNOWN_KEY") {
      console.log(`${words[i]}: nothing is stored`);
    } else if (result.error) {
      console.log(`${words[i]}: ${result.error.reason}: ${result.error.message}`);
    } else {
      const age = ((Date.now() - result.info.commit_time_ms) / 1000).toFixed(0);
      console.log(`${words[i]} = ${result.value_json} (batch ${result.info.version}, ${age} s old)`);
    }
  });
}

/** Counts all keys of a state, as of one committed batch. */
async function scan(client, state) {
  // The whole scan; without a deadline it would wait for a server for ever.
  const options = { deadline: Date.now() + 60_000 };
  const request = { state_name: state, json: true, keys_only: true };
  let keys = 0;
  for await (const page of client.ScanKvState(request, options)) {
    keys += page.keys.length;
    if (page.last) {
      console.log(`scan: ${keys} keys, complete: ${page.complete}`);
      return;
    }
  }
  throw new Error("the scan has no last page");
}

/** The reason that the server sent as metadata of a failed call; undefined if it sent none. */
function reasonOf(error) {
  const [sent] = error.metadata?.get("queryable-state-error-bin") ?? [];
  return sent && definition["queryable_state.v1.Error"].deserialize(sent);
}

function asJson(word) {
  try {
    JSON.parse(word);
    return word;
  } catch {
    return JSON.stringify(word);
  }
}

const [address, state, ...words] = process.argv.slice(2);
if (words.length === 0) {
  console.error("usage: node example.mjs HOST:PORT STATE KEY...");
  process.exit(2);
}
const client = new QueryableState(address, grpc.credentials.createInsecure(), {
  "grpc.service_config": JSON.stringify(retries),
});
try {
  await lookUp(client, state, words);
  await scan(client, state);
} catch (error) {
  const refused = reasonOf(error);
  console.error(refused ? `${refused.reason}: ${refused.message}` : error.message);
  process.exitCode = 1;
} finally {
  client.close();
}
