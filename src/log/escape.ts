/** Escapes untrusted text for terminals, logs and shells. */

/** C0, DEL and C1 control characters, and marks that change the direction of text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g
const shortEscapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Replaces control characters by escapes: `\n`, `\t`, `\x1b`, `\u202e`. */
export const escapeControls = (text: string): string => text.replace(unsafe, (char) => shortEscapes[char] ?? hexEscape(char.charCodeAt(0)))

/** Characters of a word and of a whole text that shorten() leaves, at its beginning and at its end. */
const shownOfWord = [400, 100] as const
const shownOfText = [4000, 500] as const

/** Cuts long words, such as a file that was passed in place of an id, and long texts, for an error message. */
export const shorten = (text: string): string =>
  cut(
    text.replace(/\S{1001,}/g, (word) => cut(word, shownOfWord)),
    shownOfText,
  )

const cut = (text: string, [first, last]: readonly [first: number, last: number]): string =>
  text.length <= first + last ? text : `${text.slice(0, first)}…${text.slice(-last)}`

/** Quotes a text for a POSIX shell. */
export const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** Returns a text as one word of a shell command, quoted if necessary. */
export const shellWord = (text: string): string => (/^[\w./:@%=+,-]+$/.test(text) ? text : quote(text))

const hexEscape = (code: number): string => (code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : unicodeEscape(code))

/** Replaces control characters in JSON by `\u` escapes. JSON.stringify does that for C0 only. */
export const escapeControlsInJson = (json: string): string =>
  json.replace(unsafe, (char) => (char === '\n' ? char : unicodeEscape(char.charCodeAt(0))))

const unicodeEscape = (code: number): string => `\\u${code.toString(16).padStart(4, '0')}`
