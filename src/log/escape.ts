/** Texts of others in lines that a person reads: nothing that a terminal obeys, nothing that turns a line around, no end of the line. */

/** C0, DEL and C1 controls, and the marks that reorder text on the screen. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g
const shortEscapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** The text with control characters written out: `\n`, `\t`, `\x1b`, `\u202e`. */
export const escapeControls = (text: string): string => text.replace(unsafe, (char) => shortEscapes[char] ?? hexEscape(char.charCodeAt(0)))

const hexEscape = (code: number): string => (code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : unicodeEscape(code))

/** JSON that says the same with the same characters written out; JSON itself does that for C0 alone. */
export const escapeControlsInJson = (json: string): string =>
  json.replace(unsafe, (char) => (char === '\n' ? char : unicodeEscape(char.charCodeAt(0))))

const unicodeEscape = (code: number): string => `\\u${code.toString(16).padStart(4, '0')}`
