/**
 * Tries every regular expression of the program on texts made to take it long, and prints those whose time grows faster than with the square of
 * the length. At this length such a one takes seconds to years, and all others milliseconds: what the machine does besides makes no difference.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { parseAst } from 'vitest/node'

const root = join(import.meta.dirname, '../../..')
const length = 1500
/** milliseconds; a square takes about one */
const patience = 375
/** What a text may go on with for long whatever the expression looks for. */
const common = [' ', '\t', '\n', 'a', 'A', '0', '-', '_', '.', '/', '"', '\\', '<', '>', '[', '{', '=', ',', ' a', 'a.', '\\"', 'é']
/** Expressions that must be found, or nothing is. */
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

/** Texts that it matches; none for those whose syntax is not known there. */
function samplesOf({ source, flags }: RegExp): string[] {
  try {
    return fc.sample(fc.stringMatching(new RegExp(source, flags.replace(/[gimsdy]/g, ''))), { numRuns: 2, seed: 1 })
  } catch {
    return []
  }
}

/** The beginning of a match, one piece of it again and again, and an end that fits nothing. */
function* textsFor(expression: RegExp): Generator<string> {
  const long = (piece: string): string => piece.repeat(Math.ceil(length / piece.length))
  const samples = samplesOf(expression).map((sample) => sample.slice(0, 20))
  for (const piece of common) for (const before of ['', ...samples]) yield `${before}${long(piece)}\u0001`
  for (const sample of samples)
    for (let at = 0; at < sample.length; at++)
      for (const size of [1, 2]) yield `${sample.slice(0, at)}${long(sample.slice(at, at + size))}\u0001`
}

/** Whether it takes too long, again and again. */
function isSlow(expression: RegExp, text: string): boolean {
  for (let time = 0; time < 2; time++)
    try {
      expression.lastIndex = 0
      runInNewContext('expression.exec(text)', { expression, text }, { timeout: patience })
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
    runInNewContext('together()', { together }, { timeout: patience })
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
