// The types of keys and values, parsed from Spark's words: `struct<a:int,b:array<string>>`.

/** Parses one type; a text that is not understood is a type without parts. */
export function parseType(text) {
  if (!text) return null;
  const reader = { text, at: 0 };
  try {
    return readType(reader);
  } catch {
    return { name: text, text };
  }
}

function expect(reader, sign) {
  if (reader.text[reader.at] !== sign) throw new SyntaxError(`${sign} expected at ${reader.at}`);
  reader.at += 1;
}

function readName(reader) {
  if (reader.text[reader.at] !== "`") {
    const name = /^[^<>,:]*/.exec(reader.text.slice(reader.at))[0];
    reader.at += name.length;
    return name;
  }
  let name = "";
  for (reader.at += 1; reader.at < reader.text.length; reader.at += 1) {
    if (reader.text[reader.at] !== "`") name += reader.text[reader.at];
    else if (reader.text[reader.at + 1] === "`") { name += "`"; reader.at += 1; }
    else break;
  }
  expect(reader, "`");
  return name;
}

function readParts(reader, readPart) {
  const parts = [];
  expect(reader, "<");
  if (reader.text[reader.at] !== ">") {
    parts.push(readPart());
    while (reader.text[reader.at] === ",") {
      reader.at += 1;
      parts.push(readPart());
    }
  }
  expect(reader, ">");
  return parts;
}

function readType(reader) {
  const begun = reader.at;
  const name = /^\w+(\([\d,]*\))?/.exec(reader.text.slice(reader.at))?.[0] ?? "";
  reader.at += name.length;
  const type = { name: name.replace(/\(.*/, "") };
  if (name === "struct") {
    type.fields = readParts(reader, () => {
      const field = readName(reader);
      expect(reader, ":");
      return { name: field, type: readType(reader) };
    });
  } else if (name === "tuple") {
    type.fields = readParts(reader, () => ({ name: "", type: readType(reader) }));
  } else if (name === "array") {
    [type.element] = readParts(reader, () => readType(reader));
  } else if (name === "map") {
    [type.key, type.element] = readParts(reader, () => readType(reader));
  } else if (name === "custom") {
    reader.at = reader.text.length;
  }
  type.text = reader.text.slice(begun, reader.at);
  return type;
}
