/** JSON of unknown origin. */

/** Returns the value of a JSON text; undefined for other text. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
