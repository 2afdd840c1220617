/** Manual pages (roff) from the command tree. The output is deterministic. */
import type { Exit } from '../runtime/exit.ts'
import type { CommandNode } from './command-tree.ts'

/** Returns "dms-sources-sync". */
export const manPageName = ({ path }: CommandNode): string => path.replaceAll(' ', '-')

/** Formats a page of section 1. The page of the root includes global flags and `exits`. */
export function formatManPage(word: CommandNode, version: string, exits: Readonly<Record<Exit, readonly [number, string]>>): string {
  const { path, manual, summary, usage, flags, words } = word
  const name = manPageName(word)
  const isRoot = path === 'dms'
  return [
    '.\\" Made by: dms docs man',
    `.TH ${quoted(name.toUpperCase())} 1 "" ${quoted(`dms ${version}`)} ${quoted('dms manual')}`,
    // Hyphenation and justification would end up in copied command lines.
    '.nh',
    '.ad l',
    '.SH NAME',
    `${plain(name)} \\- ${plain(lowered(summary))}`,
    '.SH SYNOPSIS',
    `\\fB${plain(path)}\\fR ${plain(usage)}`,
    '.SH DESCRIPTION',
    line(`${summary}.`),
    ...(manual?.notes ?? []).flatMap((note) => ['.PP', line(note)]),
    ...(isRoot ? [] : ['.PP', 'Flags of every command are in', '.BR dms (1).']),
    ...(manual ? ['.SH EXAMPLES', ...manual.examples.flatMap(example)] : []),
    ...(words.length > 0
      ? ['.SH COMMANDS', ...words.flatMap((each) => ['.TP', `.BR ${plain(manPageName(each))} (1)`, line(each.summary)])]
      : []),
    '.SH OPTIONS',
    ...flags.flatMap(({ flags: shown, description }) => ['.TP', `\\fB${plain(shown)}\\fR`, line(description)]),
    ...(isRoot ? exitStatus(Object.values(exits).map(([code, meaning]) => `${code} ${meaning}`)) : []),
    ...(manual?.exits ? exitStatus(manual.exits.split(' · ')) : []),
    ...(isRoot ? [] : ['.SH SEE ALSO', '.BR dms (1)']),
    '',
  ].join('\n')
}

const example = ([command, what]: readonly [string, string]): string[] => [
  '.PP',
  ...(what === '' ? [] : [line(`${what}:`)]),
  '.PP',
  '.EX',
  line(`    ${command.includes('dms ') ? '' : 'dms '}${command}`),
  '.EE',
]

function exitStatus(rows: readonly string[]): string[] {
  const list = rows.flatMap((row) => {
    const [, code, meaning] = /^([\d/, ]+\d|\d+) (.*)$/s.exec(row) ?? []
    return code === undefined ? ['.PP', line(row)] : ['.TP', `\\fB${code}\\fR`, line(meaning ?? '')]
  })
  return ['.SH EXIT STATUS', ...list]
}

const lowered = (sentence: string): string => sentence.charAt(0).toLowerCase() + sentence.slice(1)

const quoted = (text: string): string => `"${plain(text)}"`

/** Escapes a line of text that would be a roff request. */
const line = (text: string): string => plain(text).replace(/^(\s*)([.'])/, '$1\\&$2')

const escapes: Readonly<Record<string, string>> = {
  '\\': '\\e',
  '-': '\\-',
  "'": '\\(aq',
  '`': '\\(ga',
  '"': '\\(dq',
  '^': '\\(ha',
  '~': '\\(ti',
}

/** Escapes characters that are special to roff or not ASCII. */
const plain = (text: string): string =>
  [...text]
    .map((sign) => {
      const code = sign.codePointAt(0) ?? 0
      return escapes[sign] ?? (code < 127 ? sign : `\\[u${code.toString(16).toUpperCase().padStart(4, '0')}]`)
    })
    .join('')
