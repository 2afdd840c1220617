import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, open, rename, unlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import { readPackageFile } from '../../src/version.ts'

export const configInit = (cli: Cli): Command =>
  manual('init', {
    summary: 'Write a configuration file with all settings',
    examples: [
      ['config init', '/etc/dms/config.toml for root, else ~/.config/dms/config.toml'],
      ['config init --to new.toml', ''],
    ],
    exits: '0 written · 7 file exists, and no --force',
    notes: ['All settings are commented out, except a new random jwt_secret.'],
  })
    .option('--to <file>', 'path of the file')
    .option('--force', 'replace an existing file')
    .action(async ({ to, force }: { to?: string; force?: boolean }) => {
      if (to === '-') throw usage('--to - is not supported: the file holds a secret')
      const path = resolve(to ?? defaultPath(cli))
      if (existsSync(path) && !force) throw new Failure('CONFLICT', `file ${path} exists`, { fix: 'pass --force to replace it' })
      await mkdir(dirname(path), { recursive: true })
      await replaceFile(path, withSecret(readPackageFile('config.example.toml')))
      cli.print({ path }, { columns: [{ name: 'path' }], id: 'path', sentence: `✓ Wrote ${path}; to check it: dms config check` })
    })

function defaultPath({ env }: Cli): string {
  if (process.getuid?.() === 0) return '/etc/dms/config.toml'
  return join(env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'dms', 'config.toml')
}

const withSecret = (text: string): string => text.replace(/^# jwt_secret = "".*$/m, `jwt_secret = "${randomBytes(48).toString('base64')}"`)

/** Replaces a file atomically, with mode 0600. */
async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`
  const handle = await open(temporary, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
    await rename(temporary, path)
  } finally {
    await handle.close()
    await unlink(temporary).catch(() => {})
  }
}
