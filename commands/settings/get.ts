import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { requireUser } from '../../src/cli/runtime/require-user.ts'

export const settingNames = ['theme', 'language', 'notifications_enabled', 'ocr_default_language', 'items_per_page'] as const
export const settingColumns = settingNames.map((name) => ({ name }))

export const settingsGet = (cli: Cli): Command =>
  manual('get [name]', {
    summary: 'Show your settings',
    examples: [
      ['settings get', ''],
      ['settings get ocr_default_language', 'one value'],
      ['settings get --as ana', 'on the server'],
    ],
    exits: '0 shown · 2 no such setting, or no user selected (--as) · 4 not signed in · 69 server unreachable',
  }).action(async (name: string | undefined) => {
    const key = settingNames.find((each) => each === name)
    if (name !== undefined && key === undefined) throw usage(`unknown setting "${name}"; settings: ${settingNames.join(', ')}`)
    requireUser(cli, 'settings')
    const client = await cli.client()
    const settings = await client.settings.get()
    if (key === undefined) return cli.print(settings, { columns: settingColumns, id: 'theme' })
    const { isJson } = cli.options
    if (isJson) return cli.print({ [key]: settings[key] }, { columns: [] })
    cli.write(`${settings[key]}\n`)
  })
