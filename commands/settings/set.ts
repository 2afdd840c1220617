import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { requireUser } from '../../src/cli/runtime/require-user.ts'
import type { Client } from '../../src/client/client.ts'
import { parseBoolean } from '../../src/config/values.ts'
import { settingColumns, settingNames } from './get.ts'

type Changes = Parameters<Client['settings']['update']>[0]

export const settingsSet = (cli: Cli): Command =>
  manual('set <name=value...>', {
    summary: 'Change your settings',
    examples: [
      ['settings set theme=dark items_per_page=50', ''],
      ['settings set ocr_default_language=deu+eng', ''],
      ['settings set notifications_enabled=no', ''],
    ],
    exits: '0 changed · 2 no such setting or value, or no user selected (--as) · 4 not signed in · 69 server unreachable',
  }).action(async (pairs: string[]) => {
    const changes: Changes = Object.fromEntries(pairs.map(parsePair))
    requireUser(cli, 'settings')
    const client = await cli.client()
    const settings = await client.settings.update(changes)
    cli.print(settings, { columns: settingColumns, id: 'theme', sentence: `✓ Changed ${Object.keys(changes).join(', ')}` })
  })

function parsePair(pair: string): [name: string, value: string | number | boolean] {
  const at = pair.indexOf('=')
  const name = pair.slice(0, Math.max(0, at))
  const value = pair.slice(at + 1)
  if (!settingNames.some((each) => each === name)) throw usage(`"${pair}" is not NAME=VALUE; settings: ${settingNames.join(', ')}`)
  if (name === 'items_per_page') return [name, Number(value)]
  if (name !== 'notifications_enabled') return [name, value]
  const isOn = parseBoolean(value)
  if (isOn === undefined) throw usage(`${pair}: the value is neither yes nor no`)
  return [name, isOn]
}
