import { join } from 'node:path'
import type { Command } from 'commander'
import { readSecret } from '../../src/cli/arguments/secret.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { bodyOf, expectedOf, nameIn, placeOf, refuseTerminal, toStdout } from '../../src/cli/remote/download-target.ts'
import { visitOf } from '../../src/cli/remote/link-visit.ts'
import { safeName, saveFile } from '../../src/cli/remote/save-file.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

interface Flags {
  to?: string
  clobber?: boolean
  passwordStdin?: boolean
  passwordFile?: string
}

export const sharedLinksDownload = (cli: Cli): Command =>
  manual('download <link>', {
    summary: 'Fetch the file of a shared link (token or address); needs no account, and counts as a view.',
    examples: [
      ['shared-links download https://dms.example.org/api/public/shared/kR3…', 'into this folder'],
      ['shared-links download kR3… --password-file pw --to contract.pdf', ''],
      ['shared-links download kR3… --to - | pdftotext - -', 'into a pipe'],
    ],
    exits:
      '0 there · 2 needs a password, and nobody could be asked · 5 wrong password · 6 no such link, expired, withdrawn or used up · 7 a file of that name exists',
  })
    .option('--to <place>', 'file, folder, or - for standard output (default: this folder)')
    .option('--clobber', 'replace a file that exists')
    .option('--password-stdin', 'read the password from standard input')
    .option('--password-file <file>', 'read it from a file (also DMS_LINK_PASSWORD, DMS_LINK_PASSWORD_FILE)')
    .action(async (given: string, flags: Flags) => {
      const { to = '.', clobber = false } = flags
      if (to === '-') refuseTerminal(cli)
      const { token, publicLinks } = await visitOf(cli, given)
      const needsOne = cli.options.printCurl ? hasPassword(cli, flags) : (await publicLinks.get(token)).requires_password
      const response = await publicLinks.download(token, needsOne ? await passwordOf(cli, flags) : undefined)
      if (to === '-') return void (await toStdout(cli, response))
      const place = await placeOf(to, 1)
      try {
        const path = 'file' in place ? place.file : join(place.folder, safeName(await nameIn(response)))
        const saved = await saveFile(bodyOf(response), path, expectedOf(response), clobber, () => cli.signal.throwIfAborted())
        const columns = ['path', 'bytes', 'sha256'].map((name) => ({ name }))
        cli.print({ path, ...saved }, { columns, id: 'path', sentence: `✓ ${path} (${saved.bytes} bytes)` })
      } finally {
        await response.body?.cancel().catch(() => {})
      }
    })

const passwordOf = (cli: Cli, { passwordStdin: isStdin, passwordFile: file }: Flags): Promise<string> =>
  readSecret(cli.options, 'password', { isStdin, file, env: cli.env, variable: 'DMS_LINK_PASSWORD' })

const hasPassword = ({ env }: Cli, { passwordStdin, passwordFile }: Flags): boolean =>
  passwordStdin === true || Boolean(passwordFile ?? env.DMS_LINK_PASSWORD ?? env.DMS_LINK_PASSWORD_FILE)
