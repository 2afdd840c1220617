/** The lines of shell in the fenced blocks of README and docs/. */
import { readdir, readFile } from 'node:fs/promises'

export interface DocsLine {
  readonly page: string
  /** "docs/cli.md:101" */
  readonly at: string
  readonly text: string
  /** whether cron runs it */
  readonly isCron: boolean
  /** assignments above it in a crontab */
  readonly variables: Readonly<Record<string, string>>
  /** exit code that the output below it shows; default 0 */
  readonly code: number
}

export const pageNames = [
  'README.md',
  'CONTRIBUTING.md',
  ...(await readdir('docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
]

/** Returns the lines of all pages in their order, without prompts, comments and the fields of cron. */
export async function docsLines(): Promise<DocsLine[]> {
  return (await Promise.all(pageNames.map(async (name) => linesOfPage(name, await readFile(name, 'utf8'))))).flat()
}

function linesOfPage(name: string, text: string): DocsLine[] {
  return [...text.matchAll(/^```(sh|console|cron|)\n([\s\S]*?)^```$/gm)].flatMap(({ 1: kind = '', 2: block = '', index }) => {
    const first = text.slice(0, index).split('\n').length + 1
    const isScreen = kind === '' || kind === 'console'
    const code = Number(/"exit_code":(\d+)/.exec(block)?.[1] ?? 0)
    const variables: Record<string, string> = {}
    const found: DocsLine[] = []
    // A continued line keeps its number.
    for (const [index, each] of block.replaceAll('\\\n', '\u0000').split('\n').entries()) {
      const at = `${name}:${first + index}`
      const line = each.replaceAll('\u0000', ' ').trim()
      if (isScreen ? !line.startsWith('$ ') : line === '' || line.startsWith('#')) continue
      if (kind !== 'cron') found.push({ page: name, at, text: isScreen ? line.slice(2) : line, isCron: false, variables, code })
      else if (/^\w+=/.test(line)) variables[line.slice(0, line.indexOf('='))] = line.slice(line.indexOf('=') + 1)
      else found.push({ page: name, at, text: cronCommand(line), isCron: true, variables, code })
    }
    return found
  })
}

/** Returns the command behind the times and the user. cron itself takes an unescaped % for the end of the line. */
function cronCommand(line: string): string {
  const [, command = ''] = /^(?:[\d*/,-]+ +){5}\w+ +(.*)$/.exec(line) ?? []
  if (command === '' || /(?<!\\)%/.test(command)) throw new Error(`not a line of a crontab: ${line}`)
  return command.replaceAll('\\%', '%')
}
