/**
 * Matches paths against the globs of a source or an upload. Users write the globs and remote servers the names: matching must not backtrack. This
 * matcher simulates a nondeterministic automaton in time linear in the length of the path. picomatch is not used because it compiles globs to
 * backtracking expressions.
 */
import { setImmediate } from 'node:timers/promises'
import { AppError } from '../errors.ts'

type Token =
  | { kind: 'char'; code: number }
  /** one character except a slash */
  | { kind: 'one' }
  | { kind: 'set'; isNegative: boolean; ranges: readonly (readonly [from: number, to: number])[] }
  /** any characters except slashes */
  | { kind: 'star' }
  /** any characters */
  | { kind: 'deep' }
  /** any directories, each with its slash; `inside` is the state within a name */
  | { kind: 'folders' }
  | { kind: 'inside' }
  /** end of a glob */
  | { kind: 'end' }

/** Steps between two yields to the event loop: a few milliseconds. */
const maxStepsPerTurn = 500_000
/** Size of the transition cache. */
const maxCachedCharacters = 1024

interface Glob {
  isNegative: boolean
  /** without a slash: compared with the file name only */
  isName: boolean
  /** one glob for each choice of its braces */
  expansions: string[]
}

export interface GlobMatcher {
  /** Returns true if the file at this path is selected. */
  matches(path: string): boolean
  /** Number of steps so far: 32-state words processed, and states and ranges compared with a new character. */
  readonly steps: number
}

const maxExpansions = 100
/** Maximum total length of the globs of a source, with braces expanded. */
export const maxLength = 8192

const slash = '/'.codePointAt(0) as number

/**
 * Compiles globs. A path matches if a positive glob matches (or none exists) and no glob with `!` does. Syntax: `*`, `?`, `[a-z]`, `{a,b}`, and
 * `**` for any directories; a glob without a slash matches file names. Throws an Error with the reason.
 */
export function compileGlobs(patterns: readonly string[], { isCaseSensitive = false } = {}): GlobMatcher {
  const normalize = (text: string) => (isCaseSensitive ? text.normalize('NFC') : text.normalize('NFC').toLowerCase())
  const globs = patterns.map((pattern) => parseGlob(normalize(pattern)))
  const length = globs.flatMap(({ expansions }) => expansions).reduce((sum, { length }) => sum + length, 0)
  if (length > maxLength) throw new Error(`the patterns have ${length} characters with all braces expanded; the maximum is ${maxLength}`)
  const compile = (selected: typeof globs) => ({
    hasGlobs: selected.length > 0,
    name: compileAutomaton(selected.filter((glob) => glob.isName)),
    path: compileAutomaton(selected.filter((glob) => !glob.isName)),
  })
  const included = compile(globs.filter((glob) => !glob.isNegative))
  const excluded = compile(globs.filter((glob) => glob.isNegative))
  return {
    matches(path) {
      if (!included.hasGlobs && !excluded.hasGlobs) return true
      const codes = Array.from(normalize(path), (char) => char.codePointAt(0) as number)
      const name = codes.slice(codes.lastIndexOf(slash) + 1)
      const matchesAny = (by: typeof included): boolean => by.name.accepts(name) || by.path.accepts(codes)
      return (!included.hasGlobs || matchesAny(included)) && !matchesAny(excluded)
    },
    get steps() {
      return [included, excluded].reduce((sum, { name, path }) => sum + name.steps() + path.steps(), 0)
    },
  }
}

/** Throws VALIDATION_ERROR for all invalid globs, or if the globs are too long in total. Asynchronous for validateTogether(). */
export async function validatePatterns(patterns: readonly string[]): Promise<void> {
  const issueOf = (path: string, globs: readonly string[]) => {
    try {
      compileGlobs(globs)
      return []
    } catch (error) {
      return [{ path, message: (error as Error).message }]
    }
  }
  const each = patterns.flatMap((pattern, index) => issueOf(`file_patterns.${index}`, [pattern]))
  const issues = each.length > 0 ? each : issueOf('file_patterns', patterns)
  if (issues.length > 0) throw new AppError('VALIDATION_ERROR', { issues })
}

/** Returns the matching paths. Yields to the event loop after a number of steps. */
export async function filterMatching(globs: GlobMatcher, paths: Iterable<string>): Promise<Set<string>> {
  const matching = new Set<string>()
  let stepsBefore = globs.steps
  for (const path of paths) {
    if (globs.matches(path)) matching.add(path)
    if (globs.steps - stepsBefore < maxStepsPerTurn) continue
    await setImmediate()
    stepsBefore = globs.steps
  }
  return matching
}

function parseGlob(pattern: string): Glob {
  const isNegative = pattern.startsWith('!')
  const text = (isNegative ? pattern.slice(1) : pattern).replace(/^\.?\//, '')
  if (text === '') throw new Error('an empty pattern')
  return { isNegative, isName: !text.includes('/'), expansions: [...new Set(expandBraces(text))] }
}

function expandBraces(text: string): string[] {
  const parts = text.split(/((?<!\\)\{[^{}]*\})/)
  if (parts.some((part, index) => index % 2 === 0 && /(?<!\\)[{}]/.test(part))) throw new Error('braces do not match or are nested')
  let expansions = ['']
  for (const [index, part] of parts.entries()) {
    const choices = index % 2 === 0 ? [part] : part.slice(1, -1).split(',')
    if (expansions.length * choices.length > maxExpansions) throw new Error(`braces expand to more than ${maxExpansions} patterns`)
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
    else if (set) tokens.push(parseCharacterSet(set))
    else if (rest[0] === '?') tokens.push({ kind: 'one' })
    else tokens.push({ kind: 'char', code: char.codePointAt(0) as number })
    at += (folders || stars || set).length || (rest[0] === '?' ? 1 : char.length + (isEscaped ? 1 : 0))
  }
  return [...tokens, { kind: 'end' }]
}

function parseCharacterSet(text: string): Token {
  const isNegative = text[1] === '!'
  const ranges = [...text.slice(isNegative ? 2 : 1, -1).matchAll(/(.)-(.)|(.)/gsu)].map(
    ([, from = '', to = '', one]) => [(one ?? from).codePointAt(0) as number, (one ?? to).codePointAt(0) as number] as const,
  )
  return { kind: 'set', isNegative, ranges }
}

/**
 * Compiles globs into one automaton with a state for each token. The active states are bits (Baeza-Yates and Gonnet 1992): a character costs a
 * step for each 32 states, and a character not in the cache a step for each state.
 */
function compileAutomaton(globs: readonly Glob[]) {
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
  const selfLoopStatesOnSlash = bits(({ kind }) => kind === 'deep' || kind === 'inside')
  const selfLoopStates = bits(({ kind }) => kind === 'deep' || kind === 'inside' || kind === 'star')
  /** states left by a character */
  const transitionCache = new Map<number, Uint32Array>()
  const active = new Uint32Array(initial.length)
  let steps = 0

  const transitionsFor = (code: number): Uint32Array => {
    const cached = transitionCache.get(code)
    if (cached) return cached
    if (transitionCache.size >= maxCachedCharacters) transitionCache.clear()
    const transitions = bits((token) => {
      steps += token.kind === 'set' ? 1 + token.ranges.length : 1
      return acceptsCharacter(token, code)
    })
    transitionCache.set(code, transitions)
    return transitions
  }

  /** Advances the active states and follows transitions without a character. Returns false when none is left. */
  const advance = (passed: Uint32Array | null, selfLoops: Uint32Array | null): boolean => {
    let [carry, any] = [0, 0]
    for (let word = 0; word < active.length; word++) {
      const before = active[word]!
      const left = before & (passed?.[word] ?? 0)
      let after = (passed === null ? before : (left << 1) | (before & selfLoops![word]!)) | carry
      // A "folders" token leads to at most a star, and a star to neither, so two shifts suffice.
      after |= (after & folders[word]!) << 2
      after |= (after & stars[word]!) << 1
      carry = (left >>> 31) | ((after & folders[word]!) >>> 30) | ((after & stars[word]!) >>> 31)
      active[word] = after
      any |= after
    }
    steps += active.length
    return any !== 0
  }

  return {
    accepts(codes: readonly number[]): boolean {
      active.set(initial)
      if (!advance(null, null)) return false
      for (const code of codes) if (!advance(transitionsFor(code), code === slash ? selfLoopStatesOnSlash : selfLoopStates)) return false
      return active.some((word, at) => (word & ends[at]!) !== 0)
    },
    steps: () => steps,
  }
}

function acceptsCharacter(token: Token, code: number): boolean {
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
