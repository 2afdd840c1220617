/**
 * Tries every regular expression of the program on texts that make it slow, and prints those with more than quadratic time. At this length such an
 * expression takes seconds to years, and all others milliseconds, so the load of the machine makes no difference.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { parseAst } from 'vitest/node'

const root = join(import.meta.dirname, '../../..')
const length = 1500
/** milliseconds; quadratic time is about one */
const timeoutMs = 375
/** Repeated parts that are slow for any expression. */
const common = [' ', '\t', '\n', 'a', 'A', '0', '-', '_', '.', '/', '"', '\\', '<', '>', '[', '{', '=', ',', ' a', 'a.', '\\"', 'é']
/** Expressions that must be reported, to test this program. */
const known = [/(a+)+$/, /^(\w+\s?)*$/, /\s*\s*\s*x/, /^(?:[a-z]+-?)+;/]

interface Found {
  file: string
  expression: RegExp
}

function expressionsOf(file: string): Found[] {
  const found: Found[] = []
  const look = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    const { type, regex } = node as { type?: string; regex?: { pattern: string; flags: string } }
    if (type === 'Literal' && regex) found.push({ file, expression: new RegExp(regex.pattern, regex.flags) })
    for (const inside of Object.values(node)) look(inside)
  }
  look(parseAst(readFileSync(join(root, file), 'utf8'), { lang: 'ts' }).body)
  return found
}

/** Returns texts that it matches; none for unsupported syntax. */
function samplesOf({ source, flags }: RegExp): string[] {
  try {
    return fc.sample(fc.stringMatching(new RegExp(source, flags.replace(/[gimsdy]/g, ''))), { numRuns: 2, seed: 1 })
  } catch {
    return []
  }
}

/** The beginning of a match, many repetitions of a part, and an end that never matches. */
function* textsFor(expression: RegExp): Generator<string> {
  const long = (piece: string): string => piece.repeat(Math.ceil(length / piece.length))
  const samples = samplesOf(expression).map((sample) => sample.slice(0, 20))
  for (const piece of common) for (const before of ['', ...samples]) yield `${before}${long(piece)}\u0001`
  for (const sample of samples)
    for (let at = 0; at < sample.length; at++)
      for (const size of [1, 2]) yield `${sample.slice(0, at)}${long(sample.slice(at, at + size))}\u0001`
}

/** Returns whether it takes too long in every try. */
function isSlow(expression: RegExp, text: string): boolean {
  for (let time = 0; time < 2; time++)
    try {
      expression.lastIndex = 0
      runInNewContext('expression.exec(text)', { expression, text }, { timeout: timeoutMs })
      return false
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
    }
  return true
}

function slowTextOf(expression: RegExp): string | undefined {
  const texts = [...new Set(textsFor(expression))]
  // One context for all of them is quicker; which one it was is asked after.
  const together = () => {
    for (const text of texts) {
      expression.lastIndex = 0
      expression.exec(text)
    }
  }
  try {
    runInNewContext('together()', { together }, { timeout: timeoutMs })
    return undefined
  } catch {
    return texts.find((text) => isSlow(expression, text))
  }
}

const files = ['bin', 'commands', 'migrations', 'src'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /(?<!\.d)\.[jt]s$/.test(name))
    .map((name) => join(folder, name)),
)
// Nothing else can take longer than the text is.
const all = files.flatMap(expressionsOf).filter(({ expression: { source } }) => /[*+]|,\}/.test(source))
const slow = all.flatMap(({ file, expression }) => {
  const text = slowTextOf(expression)
  return text === undefined ? [] : [`${file}: ${expression} takes long for ${JSON.stringify(text.slice(0, 60))}…`]
})
const missed = known.filter((expression) => slowTextOf(expression) === undefined).map(String)
process.stdout.write(JSON.stringify({ tried: all.length, slow, missed }))
