/**
 * Which files of a source are taken. Globs come from users and names from remote servers, so no glob becomes a backtracking expression: all
 * states that the globs of a source can be in are followed at once, in time linear in the length of the path.
 */
import { setImmediate } from 'node:timers/promises'

type Token =
  | { kind: 'char'; code: number }
  /** one character that is no slash */
  | { kind: 'one' }
  | { kind: 'set'; isNegative: boolean; ranges: readonly (readonly [from: number, to: number])[] }
  /** any characters but slashes */
  | { kind: 'star' }
  /** any characters */
  | { kind: 'deep' }
  /** any folders, each with its slash; `inside` is the state in the middle of one */
  | { kind: 'folders' }
  | { kind: 'inside' }
  /** the end of a glob */
  | { kind: 'end' }

/** Steps after which other work gets its turn: a few milliseconds. */
const stepsPerTurn = 500_000
/** Characters whose passes are kept. */
const maxKnown = 1024

interface Glob {
  isNegative: boolean
  /** without a slash: only the file's name has to match */
  isName: boolean
  /** the glob once for each choice of its braces */
  expansions: string[]
}

export interface GlobMatcher {
  /** Whether the file at this path is taken. */
  matches(path: string): boolean
  /** Work so far: words of states, and states and ranges that were compared with a new character. */
  readonly steps: number
}

const maxExpansions = 100
/** Characters of all globs of a source together, braces expanded. */
export const maxLength = 8192

const slash = '/'.codePointAt(0) as number

/**
 * Compiles globs: a path matches where a glob matches and none that begins with `!` does (with only those: every other path). `*`, `?`, `[a-z]`,
 * `{a,b}`, `**` for any folders; no case; a glob without a slash is compared with the name alone. Throws an Error that says what is wrong.
 */
export function compileGlobs(patterns: readonly string[]): GlobMatcher {
  const globs = patterns.map(parse)
  const length = globs.flatMap(({ expansions }) => expansions).reduce((sum, { length }) => sum + length, 0)
  if (length > maxLength)
    throw new Error(`${length} characters in all with every choice of braces written out, and at most ${maxLength} are allowed`)
  const automata = (isNegative: boolean) => {
    const some = globs.filter((glob) => glob.isNegative === isNegative)
    return {
      isAny: some.length > 0,
      name: automaton(some.filter((glob) => glob.isName)),
      path: automaton(some.filter((glob) => !glob.isName)),
    }
  }
  const [taken, refused] = [automata(false), automata(true)]
  return {
    matches(path) {
      if (!taken.isAny && !refused.isAny) return true
      const codes = Array.from(path.normalize('NFC').toLowerCase(), (char) => char.codePointAt(0) as number)
      const name = codes.slice(codes.lastIndexOf(slash) + 1)
      const fits = (by: typeof taken): boolean => by.name.accepts(name) || by.path.accepts(codes)
      return (!taken.isAny || fits(taken)) && !fits(refused)
    },
    get steps() {
      return [taken, refused].reduce((sum, { name, path }) => sum + name.steps() + path.steps(), 0)
    },
  }
}

/** Returns the paths that match. Yields to the event loop between two paths whenever enough steps were made. */
export async function matching(globs: GlobMatcher, paths: Iterable<string>): Promise<Set<string>> {
  const found = new Set<string>()
  let since = globs.steps
  for (const path of paths) {
    if (globs.matches(path)) found.add(path)
    if (globs.steps - since < stepsPerTurn) continue
    await setImmediate()
    since = globs.steps
  }
  return found
}

function parse(pattern: string): Glob {
  const isNegative = pattern.startsWith('!')
  const text = (isNegative ? pattern.slice(1) : pattern)
    .normalize('NFC')
    .toLowerCase()
    .replace(/^\.?\//, '')
  if (text === '') throw new Error('an empty pattern')
  return { isNegative, isName: !text.includes('/'), expansions: [...new Set(expand(text))] }
}

function expand(text: string): string[] {
  const parts = text.split(/((?<!\\)\{[^{}]*\})/)
  if (parts.some((part, index) => index % 2 === 0 && /(?<!\\)[{}]/.test(part)))
    throw new Error('braces that do not match, or that are inside others')
  let expansions = ['']
  for (const [index, part] of parts.entries()) {
    const choices = index % 2 === 0 ? [part] : part.slice(1, -1).split(',')
    if (expansions.length * choices.length > maxExpansions) throw new Error(`braces that stand for more than ${maxExpansions} patterns`)
    expansions = expansions.flatMap((start) => choices.map((choice) => start + choice))
  }
  return expansions
}

function tokenize(text: string): Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < text.length; ) {
    const rest = text.slice(at)
    const [set = ''] = /^\[!?\]?[^\]]*\]/.exec(rest) ?? []
    const [folders = ''] = at === 0 || text[at - 1] === '/' ? (/^(?:\*\*+\/)+/.exec(rest) ?? []) : []
    const [stars = ''] = /^\*+/.exec(rest) ?? []
    const isEscaped = rest[0] === '\\' && rest.length > 1
    const [char = ''] = isEscaped ? rest.slice(1) : rest
    if (folders) tokens.push({ kind: 'folders' }, { kind: 'inside' })
    else if (stars) tokens.push({ kind: stars.length > 1 ? 'deep' : 'star' })
    else if (set) tokens.push(setOf(set))
    else if (rest[0] === '?') tokens.push({ kind: 'one' })
    else tokens.push({ kind: 'char', code: char.codePointAt(0) as number })
    at += (folders || stars || set).length || (rest[0] === '?' ? 1 : char.length + (isEscaped ? 1 : 0))
  }
  return [...tokens, { kind: 'end' }]
}

function setOf(text: string): Token {
  const isNegative = text[1] === '!'
  const ranges = [...text.slice(isNegative ? 2 : 1, -1).matchAll(/(.)-(.)|(.)/gsu)].map(
    ([, from = '', to = '', one]) => [(one ?? from).codePointAt(0) as number, (one ?? to).codePointAt(0) as number] as const,
  )
  return { kind: 'set', isNegative, ranges }
}

/**
 * All globs as one nondeterministic automaton with a state for each token, followed in parallel as bits of words (Baeza-Yates and Gonnet 1992):
 * one character costs a step for each 32 states, and a character that was not met before one for each state.
 */
function automaton(globs: readonly Glob[]) {
  const tokens = globs.flatMap(({ expansions }) => expansions).flatMap(tokenize)
  const bits = (isSet: (token: Token, at: number) => boolean): Uint32Array => {
    const words = new Uint32Array(Math.ceil(tokens.length / 32))
    for (const [at, token] of tokens.entries()) if (isSet(token, at)) words[at >>> 5]! |= 1 << (at & 31)
    return words
  }
  const initial = bits((_, at) => at === 0 || tokens[at - 1]?.kind === 'end')
  const folders = bits(({ kind }) => kind === 'folders')
  const stars = bits(({ kind }) => kind === 'star' || kind === 'deep')
  const ends = bits(({ kind }) => kind === 'end')
  const staysOnSlash = bits(({ kind }) => kind === 'deep' || kind === 'inside')
  const stays = bits(({ kind }) => kind === 'deep' || kind === 'inside' || kind === 'star')
  /** by character: states that are left for the next one */
  const passedBy = new Map<number, Uint32Array>()
  const live = new Uint32Array(initial.length)
  let steps = 0

  const passesOf = (code: number): Uint32Array => {
    const known = passedBy.get(code)
    if (known) return known
    if (passedBy.size >= maxKnown) passedBy.clear()
    const found = bits((token) => {
      steps += token.kind === 'set' ? 1 + token.ranges.length : 1
      return passes(token, code)
    })
    passedBy.set(code, found)
    return found
  }

  /** Moves on to the states that follow, and to those reached from them without a character; false where none is left. */
  const move = (passed: Uint32Array | null, stay: Uint32Array | null): boolean => {
    let [carry, any] = [0, 0]
    for (let word = 0; word < live.length; word++) {
      const before = live[word]!
      const left = before & (passed?.[word] ?? 0)
      let after = (passed === null ? before : (left << 1) | (before & stay![word]!)) | carry
      // A folders token leads to a star at most, and a star to neither: two shifts are all.
      after |= (after & folders[word]!) << 2
      after |= (after & stars[word]!) << 1
      carry = (left >>> 31) | ((after & folders[word]!) >>> 30) | ((after & stars[word]!) >>> 31)
      live[word] = after
      any |= after
    }
    steps += live.length
    return any !== 0
  }

  return {
    accepts(codes: readonly number[]): boolean {
      live.set(initial)
      if (!move(null, null)) return false
      for (const code of codes) if (!move(passesOf(code), code === slash ? staysOnSlash : stays)) return false
      return live.some((word, at) => (word & ends[at]!) !== 0)
    },
    steps: () => steps,
  }
}

function passes(token: Token, code: number): boolean {
  switch (token.kind) {
    case 'char':
      return token.code === code
    case 'set':
      return code !== slash && token.ranges.some(([from, to]) => from <= code && code <= to) !== token.isNegative
    case 'one':
      return code !== slash
    case 'inside':
      return code === slash
    default:
      return token.kind === 'folders'
  }
}
