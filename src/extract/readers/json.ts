/** Text of JSON files. */

const characters = new Map(Object.entries({ '\\n': '\n', '\\r': '', '\\t': '\t', '\\f': '\n', '\\b': '', '\\/': '/' }))

/** Begins the colours and other control sequences of terminals in logs. */
const escapeCode = 0x1b

/**
 * Replaces the escapes of letters and white space. Many programs escape all letters beyond ASCII, and the n of `\n` would join the next word. Escapes of
 * quotes and backslashes stay.
 */
export const decodeJsonEscapes = (json: string): string =>
  json.replace(/\\(?:u([0-9a-fA-F]{4})|[^u])/g, (sign, code?: string) => {
    if (code === undefined) return characters.get(sign) ?? sign
    const character = Number.parseInt(code, 16)
    return character < 0x20 && character !== escapeCode ? ' ' : String.fromCharCode(character)
  })
