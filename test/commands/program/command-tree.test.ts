import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { programFor, run as runHere } from '../../../commands/program.ts'
import { helpOf } from '../../../src/cli/output/manual.ts'
import { displayWidth } from '../../../src/cli/output/table.ts'
import { rows } from '../../support/data/every-row.ts'
import { screen } from '../../support/processes/screen.ts'

function leavesOf(command: Command, words: readonly string[] = []): { name: string; command: Command }[] {
  if (command.commands.length === 0) return [{ name: words.join(' '), command }]
  return command.commands.flatMap((each) => leavesOf(each, [...words, each.name()]))
}

const { program } = await programFor(screen({}, null).streams)
const leaves = leavesOf(program)

test('every command has exactly one row in every-row.ts', () => {
  expect(Object.keys(rows).sort()).toEqual(leaves.map(({ name }) => name).sort())
})

test('summaries are at most 60 characters, without a full stop', () => {
  const all = ({ commands }: Command): Command[] => commands.flatMap((each) => [each, ...all(each)])
  const summaries = all(program).map((each) => each.summary())
  expect(summaries).not.toContain('')
  expect(summaries.filter((summary) => summary.length > 60 || !/^[A-Z].*[^.]$/.test(summary))).toEqual([])
})

test('each note is whole sentences, because its lines are wrapped', () => {
  const notes = leaves.flatMap(({ name, command }) => helpOf(command)?.notes?.map((note) => `${name}: ${note}`) ?? [])
  expect(notes.filter((note) => !/\.$|: [^.]+$/.test(note.slice(note.indexOf(': ') + 2)))).toEqual([])
})

test('no command redefines a global flag, except --version of documents', () => {
  const flagsOf = ({ short, long }: Command['options'][number]): string[] => [short, long].filter((flag) => flag !== undefined)
  const shared = new Set(program.options.flatMap(flagsOf))
  const taken = leaves.flatMap(({ name, command }) =>
    command.options.filter((option) => flagsOf(option).some((flag) => shared.has(flag))).map(({ flags }) => `${name} ${flags}`),
  )
  expect(taken).toEqual(['documents download --version <number>', 'documents restore --version <number>'])
})

/** Options that take a path, and all arguments but texts, with a command line that leaves them empty. */
const emptyValues = leaves.flatMap(({ name, command: { options, registeredArguments } }) => {
  const isPath = (word: string) => /^(?:file|folder|path|place|backup)\b/.test(word)
  const words = registeredArguments.flatMap((argument) => (argument.required ? [argument.argChoices?.[0] ?? argument.name()] : []))
  const required = options.flatMap(({ mandatory, long, argChoices }) => (mandatory ? [`${long}=${argChoices?.[0] ?? '1d'}`] : []))
  return [
    ...options
      .filter(({ flags }) => isPath(/<(.*)>/.exec(flags)?.[1] ?? ''))
      .map(({ long }) => ({ name, empty: String(long), args: [...words, ...required, `${long}=`] })),
    ...registeredArguments
      .filter(({ argChoices }) => !argChoices)
      .map((argument) => argument.name())
      .filter((name) => !['text', 'word'].includes(name))
      .map((empty) => ({
        name,
        empty,
        args: [...required, ...(words.includes(empty) ? words : [empty])].map((w) => (w === empty ? '' : w)),
      })),
  ]
})

test.each(emptyValues)('2 for $name with an empty $empty, before any work', async ({ name, empty, args }) => {
  const { streams, stdout, stderr } = screen({ DMS_DATA_DIR: '/dev/null/dms', DMS_CONFIG: '/dev/null/dms.toml' }, null)
  expect(await runHere([...name.split(' '), ...args], streams)).toBe(2)
  expect([stdout(), stderr()]).toEqual(['', `error: ${empty}: the value is empty\n         fix: look for a variable without a value\n`])
})

test.each(leaves.map(({ name }) => name))(
  '%s --help: usage, examples, exit codes; on 60 columns nothing wider but the usage and lines to be copied',
  async (name) => {
    const { streams, stdout } = screen({}, null)
    expect(await runHere([...name.split(' '), '--help'], streams)).toBe(0)
    expect(stdout()).toMatch(/^Usage: dms .*\nExamples:\n.*\nExit codes: 0 /s)
    expect(stdout()).toContain(`dms ${name.replace(/^documents (?=man$|markdown$)/, 'docs ')}`)
    // Defaults are shown as typed, not as JavaScript values.
    expect(stdout()).not.toMatch(/\(default: (\[|")/)
    // An example must begin with `dms` or another program, not with a dms subcommand.
    const copied = [...stdout().matchAll(/^ {2}\$ (\S+)/gm)].map(([, first = '']) => first)
    expect(copied.filter((first) => program.commands.some((each) => each.name() === first))).toEqual([])
    const narrow = screen({}, 60)
    expect(await runHere([...name.split(' '), '--help'], narrow.streams)).toBe(0)
    const wide = narrow
      .stdout()
      .split('\n')
      .slice(1)
      .filter((line) => displayWidth(line) > 60 && !line.startsWith('  $ '))
    expect(wide).toEqual([])
  },
)
