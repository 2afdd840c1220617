/** Normalizes a text: ids, checksums, times and names that are new in each run get placeholders. */

const changing: readonly (readonly [what: RegExp, name: string])[] = [
  [/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>'],
  [/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, '<jwt>'],
  [/\$argon2id\$[^"\\]+/g, '<password hash>'],
  [/\b[0-9a-f]{64}\.[0-9a-f]{16}\b/g, '<file address>'],
  [/\b[0-9a-f]{64}\b/g, '<sum>'],
  [/(?<=")(?:dms_)?[\w-]{43}(?=")|(?<=shared\/)[\w-]{43}|(?<=token=)[\w-]+…/g, '<token>'],
  [/20[2-9]\d-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)/g, '<moment>'],
  [/w~\d{6}/g, '<word>'],
  [/[0-7]{11}\0[0-7]{6}\0 (?=0)/g, '<time and checksum of a tar entry>'],
  [/198\.18\.\d+\.\d+/g, '<address>'],
  [/(?<="(?:took_ms|seq|position)": ?)[\d.]+/g, '<number>'],
]

/** Equal texts differ only in such values. `known`: ids with a name, because their owner matters. */
export function normal(text: string, known: Readonly<Record<string, string>> = {}): string {
  const named = Object.entries(known).reduce((all, [name, id]) => all.replaceAll(id, `<${name}>`), text)
  return changing.reduce((all, [what, name]) => all.replaceAll(what, name), named)
}
