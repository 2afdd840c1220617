/**
 * Which files of a source are wanted. Globs come from users and meet names from strangers, so they are not made into regular expressions,
 * which can take for ever: all places where a pattern may stand are followed at once, in time of path × pattern.
 */

type Token =
  | { kind: 'char'; char: string }
  /** one character that is no slash */
  | { kind: 'one' }
  | { kind: 'set'; has(char: string): boolean }
  /** any characters but slashes */
  | { kind: 'star' }
  /** any characters */
  | { kind: 'deep' }
  /** any folders, each with its slash; `inside` is where one is being passed */
  | { kind: 'folders' }
  | { kind: 'inside' }

interface Glob {
  isNegative: boolean
  /** without a slash: only the file's name has to match */
  isName: boolean
  variants: Token[][]
}

const maxVariants = 100

/**
 * Makes the test for paths: some pattern matches and none that begins with `!` does (with no others: everything else is wanted). `*`, `?`, `[a-z]`,
 * `{a,b}`, `**` for any folders; no case; a pattern without a slash is about the name alone. Throws an Error that says what is wrong.
 */
export function wanted(patterns: readonly string[]): (path: string) => boolean {
  if (patterns.length === 0) return () => true
  const globs = patterns.map(compile)
  const positive = globs.filter(({ isNegative }) => !isNegative)
  const negative = globs.filter(({ isNegative }) => isNegative)
  return (path) => {
    const text = path.normalize('NFC').toLowerCase()
    const name = text.slice(text.lastIndexOf('/') + 1)
    const fits = ({ isName, variants }: Glob): boolean => variants.some((tokens) => matches(tokens, isName ? name : text))
    return (positive.length === 0 || positive.some(fits)) && !negative.some(fits)
  }
}

function compile(pattern: string): Glob {
  const isNegative = pattern.startsWith('!')
  const text = (isNegative ? pattern.slice(1) : pattern)
    .normalize('NFC')
    .toLowerCase()
    .replace(/^\.?\//, '')
  if (text === '') throw new Error('an empty pattern')
  return { isNegative, isName: !text.includes('/'), variants: variantsOf(text).map(tokensOf) }
}

/** The pattern once for each choice of its braces. */
function variantsOf(text: string): string[] {
  const parts = text.split(/((?<!\\)\{[^{}]*\})/)
  if (parts.some((part, index) => index % 2 === 0 && /(?<!\\)[{}]/.test(part)))
    throw new Error('braces that do not match, or that are inside others')
  let variants = ['']
  for (const [index, part] of parts.entries()) {
    const choices = index % 2 === 0 ? [part] : part.slice(1, -1).split(',')
    variants = variants.flatMap((start) => choices.map((choice) => start + choice))
    if (variants.length > maxVariants) throw new Error(`braces that stand for more than ${maxVariants} patterns`)
  }
  return variants
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < text.length; ) {
    const rest = text.slice(at)
    const [set = ''] = /^\[!?\]?[^\]]*\]/.exec(rest) ?? []
    const [folders = ''] = at === 0 || text[at - 1] === '/' ? (/^(?:\*\*+\/)+/.exec(rest) ?? []) : []
    const [stars = ''] = /^\*+/.exec(rest) ?? []
    if (folders) tokens.push({ kind: 'folders' }, { kind: 'inside' })
    else if (stars) tokens.push({ kind: stars.length > 1 ? 'deep' : 'star' })
    else if (set) tokens.push(setOf(set))
    else if (rest[0] === '?') tokens.push({ kind: 'one' })
    else tokens.push({ kind: 'char', char: (rest[0] === '\\' ? rest[1] : rest[0]) ?? '\\' })
    at += (folders || stars || set).length || (rest[0] === '\\' && rest.length > 1 ? 2 : 1)
  }
  return tokens
}

function setOf(text: string): Token {
  const isNegative = text[1] === '!'
  const ranges = [...text.slice(isNegative ? 2 : 1, -1).matchAll(/(.)-(.)|(.)/gsu)].map(([, from = '', to = '', one]) => [
    one ?? from,
    one ?? to,
  ])
  const isIn = (char: string): boolean => ranges.some(([from = '', to = '']) => from <= char && char <= to)
  return { kind: 'set', has: (char) => char !== '/' && isIn(char) !== isNegative }
}

function matches(tokens: readonly Token[], text: string): boolean {
  let places = new Set<number>()
  const enter = (at: number, into: Set<number>): void => {
    if (into.has(at)) return
    into.add(at)
    const kind = tokens[at]?.kind
    if (kind === 'star' || kind === 'deep') enter(at + 1, into)
    if (kind === 'folders') enter(at + 2, into)
  }
  enter(0, places)
  for (const char of text) {
    const next = new Set<number>()
    for (const at of places) {
      const token = tokens[at]
      if (!token) continue
      const isKept = token.kind === 'deep' || token.kind === 'inside' || (token.kind === 'star' && char !== '/')
      if (isKept) enter(at, next)
      if (token.kind === 'folders') enter(at + 1, next)
      if (token.kind === 'inside' && char === '/') enter(at + 1, next)
      const isPassed =
        (token.kind === 'char' && token.char === char) ||
        (token.kind === 'one' && char !== '/') ||
        (token.kind === 'set' && token.has(char))
      if (isPassed) enter(at + 1, next)
    }
    places = next
    if (places.size === 0) return false
  }
  return places.has(tokens.length)
}
