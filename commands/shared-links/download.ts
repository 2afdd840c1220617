import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readSecret } from '../../src/cli/arguments/secret.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { columnsOf } from '../../src/cli/output/output.ts'
import { bodyChunks, expectedContent, rejectTerminal, resolveDownloadTarget, writeToStdout } from '../../src/cli/remote/download-target.ts'
import { fileExistsError, safeName, saveFile } from '../../src/cli/remote/save-file.ts'
import { resolveSharedLink } from '../../src/cli/remote/shared-link-target.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

interface PasswordFlags {
  passwordStdin?: boolean
  passwordFile?: string
}

export const download = (cli: Cli) =>
  manual('download <link>', {
    summary: 'Download the file of a shared link',
    examples: [
      ['shared-links download https://dms.example.org/api/public/shared/kR3…', 'into the current folder'],
      ['shared-links download kR3… --password-file pw --to contract.pdf', ''],
      ['shared-links download kR3… --to - | pdftotext - -', 'to a pipe'],
    ],
    exits:
      '0 downloaded · 2 password required, and no terminal to ask on · 5 wrong password · 6 no such link, expired, revoked or used up · 7 file exists',
    notes: ['LINK is the token or the URL. Needs no account and counts as a view.'],
  })
    .option('--to <place>', 'file, folder, or - for standard output (default: current folder)')
    .option('--clobber', 'replace an existing file')
    .option('--password-stdin', 'read the password from standard input')
    .option('--password-file <file>', 'read the password from a file (also DMS_LINK_PASSWORD, DMS_LINK_PASSWORD_FILE)')
    .action(async (link: string, flags: PasswordFlags & { to?: string; clobber?: boolean }) => {
      const { to = '.', clobber = false } = flags
      if (to === '-') rejectTerminal(cli)
      const { token, publicLinks } = await resolveSharedLink(cli, link)
      const fetchFile = async (needsPassword: boolean) =>
        publicLinks.download(token, needsPassword ? await readPassword(cli, flags) : undefined)
      if (cli.options.printCurl) return void (await fetchFile(hasPassword(cli, flags)))
      const { requires_password, filename } = await publicLinks.get(token)
      if (to === '-') return void (await writeToStdout(cli, await fetchFile(requires_password)))
      const path = await resolvePath(to, filename, clobber)
      const response = await fetchFile(requires_password)
      try {
        const saved = await saveFile(bodyChunks(response), path, expectedContent(response), {
          canOverwrite: clobber,
          onBytes: () => cli.signal.throwIfAborted(),
        })
        const columns = columnsOf(['path', 'bytes', 'sha256'])
        cli.print({ path, ...saved }, { columns, id: 'path', sentence: `✓ ${path} (${saved.bytes} bytes)` })
      } finally {
        await response.body?.cancel().catch(() => {})
      }
    })

/** Returns the path of the file. Throws Failure if it cannot be written: a download that fails later has cost a view. */
async function resolvePath(to: string, filename: string, canOverwrite: boolean): Promise<string> {
  const target = await resolveDownloadTarget(to, 1)
  const path = 'file' in target ? target.file : join(target.folder, safeName(filename))
  if (!canOverwrite && (await stat(path).catch(() => null))) throw fileExistsError(path)
  return path
}

const readPassword = (cli: Cli, { passwordStdin: isStdin, passwordFile: file }: PasswordFlags): Promise<string> =>
  readSecret(cli.options, 'password', { isStdin, file, env: cli.env, variable: 'DMS_LINK_PASSWORD' })

const hasPassword = ({ env }: Cli, { passwordStdin, passwordFile }: PasswordFlags): boolean =>
  passwordStdin === true || Boolean(passwordFile ?? env.DMS_LINK_PASSWORD ?? env.DMS_LINK_PASSWORD_FILE)
