import type { Command } from 'commander'
import { parseCount, parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { readSecret } from '../../src/cli/arguments/secret.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { SharedLink } from '../../src/client/shared-links.ts'
import { linkColumns } from './list.ts'

interface Flags {
  expires?: string
  maxViews?: string
  withPassword?: boolean
  passwordStdin?: boolean
  passwordFile?: string
  generatePassword?: boolean
}

export const sharedLinksCreate = (cli: Cli): Command =>
  manual('create <document>', {
    summary: 'Create a link that opens a document without an account',
    examples: [
      ['shared-links create 0192f0c1-… --expires 7d', ''],
      ['url=$(dms shared-links create "$id" --expires 48h --max-views 3)', 'prints only the URL in a script'],
      ['shared-links create 0192f0c1-… --generate-password', 'prints URL, tab, password'],
    ],
    exits: '0 created · 2 invalid value · 4 not signed in · 6 no such document · 69 server unreachable, or hourly limit of links reached',
  })
    .option('--expires <when>', 'time until expiry (7d), or a date (2026-12-31)')
    .option('--max-views <n>', 'number of views')
    .option('--with-password', 'ask for a password for the link')
    .option('--password-stdin', 'read the link password from standard input')
    .option('--password-file <file>', 'read the link password from a file (also DMS_LINK_PASSWORD, DMS_LINK_PASSWORD_FILE)')
    .option('--generate-password', 'generate a link password and print it after the URL')
    .action(async (given: string, flags: Flags) => {
      const terms = {
        expires_at: parseExpiry(flags.expires),
        max_views: flags.maxViews === undefined ? null : parseCount('--max-views', flags.maxViews),
      }
      const password = await readPassword(cli, flags)
      const client = await cli.client()
      const link = await client.sharedLinks.create({ document_id: parseId(given, 'document'), password, ...terms })
      printLink(cli, link, flags.generatePassword ? password : null)
    })

/** Prints only the URL in a pipe, for `url=$(dms shared-links create …)`. */
function printLink(cli: Cli, link: SharedLink, password: string | null): void {
  const { format, fields, isHuman } = cli.options
  const shown = password === null ? link.url : `${link.url}\t${password}`
  if (isHuman) cli.note(`✓ Created link to "${link.filename}" (id ${link.id})`)
  if (isHuman || (format === 'tsv' && fields === null)) cli.write(`${shown}\n`)
  else
    cli.print(password === null ? link : { ...link, password }, {
      columns: linkColumns.map((column) => (column.name === 'url' ? { name: 'url' } : column)),
    })
}

function parseExpiry(given: string | undefined): string | null {
  if (given === undefined) return null
  if (/^\d{4}-/.test(given)) return given
  return new Date(Date.now() + parseDurationFlag('--expires', given)).toISOString()
}

async function readPassword(cli: Cli, flags: Flags): Promise<string | null> {
  const { passwordStdin: isStdin, passwordFile: file, generatePassword, withPassword } = flags
  if ([isStdin, file !== undefined, generatePassword].filter(Boolean).length > 1)
    throw usage('--password-stdin, --password-file and --generate-password exclude each other')
  if (generatePassword) return (await import('../../src/users/passwords.ts')).generatePassword()
  const { DMS_LINK_PASSWORD: text, DMS_LINK_PASSWORD_FILE: path } = cli.env
  if (!isStdin && file === undefined && !withPassword && !text && !path) return null
  return readSecret(cli.options, 'password', { isStdin, file, env: cli.env, variable: 'DMS_LINK_PASSWORD' }, true)
}
