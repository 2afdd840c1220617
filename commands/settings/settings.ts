import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, rejectOutputFlags } from '../../src/cli/output/output.ts'
import { requireUser } from '../../src/cli/remote/target.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { parseBoolean } from '../../src/config/values.ts'

const names = ['theme', 'language', 'notifications_enabled', 'ocr_default_language', 'items_per_page'] as const

export const settings = (cli: Cli) => group('settings', 'Show and change your user settings', [get(cli), set(cli)])

const get = (cli: Cli) =>
  manual('get [name]', {
    summary: 'Show your settings',
    examples: [
      ['settings get', ''],
      ['settings get ocr_default_language', 'one value'],
      ['settings get --as ana', 'on the server'],
    ],
    exits: '0 shown · 2 no such setting, or no user selected (--as) · 4 not signed in · 69 server unreachable',
  }).action(async (name: string | undefined) => {
    const key = names.find((each) => each === name)
    if (name !== undefined && key === undefined) throw usage(`unknown setting "${name}"; settings: ${names.join(', ')}`)
    if (key !== undefined) rejectOutputFlags(cli.options, 'a single value is printed as it is')
    requireUser(cli, 'settings')
    const client = await cli.client()
    const settings = await client.settings.get()
    if (key === undefined) cli.print(settings, { columns: columnsOf(names), id: 'theme' })
    else if (cli.options.isJson) cli.print({ [key]: settings[key] }, { columns: [] })
    else cli.write(`${settings[key]}\n`)
  })

const set = (cli: Cli) =>
  manual('set <name=value...>', {
    summary: 'Change your settings',
    examples: [
      ['settings set theme=dark items_per_page=50', ''],
      ['settings set ocr_default_language=deu+eng', ''],
      ['settings set notifications_enabled=no', ''],
    ],
    exits: '0 changed · 2 no such setting or value, or no user selected (--as) · 4 not signed in · 69 server unreachable',
  }).action(async (pairs: string[]) => {
    const changes = Object.fromEntries(pairs.map(parsePair))
    requireUser(cli, 'settings')
    const client = await cli.client()
    const sentence = `✓ Changed ${Object.keys(changes).join(', ')}`
    cli.print(await client.settings.update(changes), { columns: columnsOf(names), id: 'theme', sentence })
  })

function parsePair(pair: string): [name: string, value: string | number | boolean] {
  const at = pair.indexOf('=')
  const name = pair.slice(0, Math.max(0, at))
  const value = pair.slice(at + 1)
  if (!names.some((each) => each === name)) throw usage(`"${pair}" is not NAME=VALUE; settings: ${names.join(', ')}`)
  if (name === 'items_per_page') return [name, Number(value)]
  if (name !== 'notifications_enabled') return [name, value]
  const isOn = parseBoolean(value)
  if (isOn === undefined) throw usage(`${pair}: the value is neither yes nor no`)
  return [name, isOn]
}
