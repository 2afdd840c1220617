import type { VerifyResult } from '../../src/backup/verify.ts'
import { loadSignaturePolicy, resolveBackup, type SigningKeyFlags } from '../../src/cli/arguments/backup-source.ts'
import { startFindings } from '../../src/cli/output/findings.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { escapeControls } from '../../src/log/escape.ts'

type Problem = VerifyResult['problems'][number]

export const verify = (cli: Cli) =>
  manual('verify <backup>', {
    summary: 'Verify every checksum of a backup',
    examples: [
      ['backup verify dms-20261120T031500Z.tar', 'an archive of backup.path'],
      ['age -d -i key dms.tar.age | dms backup verify -', 'from a pipe'],
      ['backup verify /mnt/nas/dms', 'a folder; without dms: sha256sum -c data/*/SHA256SUMS'],
    ],
    exits:
      '0 intact · 3 something is missing or damaged, also if it was when the backup was made · 6 no such backup · 75 a backup has updated the folder',
  })
    .option('--key-file <file>', 'key to verify the signature with (default: backup.key_file)')
    .option('--unsigned-ok', 'accept an unsigned backup although a key is configured')
    .action(async (reference: string, flags: SigningKeyFlags) => {
      cli.rejectRemote('backup verify')
      const { config } = await cli.config({ 'backup.key_file': flags.keyFile })
      const policy = await loadSignaturePolicy(config.backup.key_file, flags)
      const source = await resolveBackup(cli, reference)
      const [{ verifyBackup }, { describeDocuments, documentCounts }] = await Promise.all([
        import('../../src/backup/verify.ts'),
        import('../../src/backup/manifest.ts'),
      ])
      const columns = [{ name: 'problem' }, { name: 'path' }, { name: 'origin' }] as const
      const formatProblem = ({ path, problem, origin }: Problem) =>
        escapeControls(`${problem}  ${path}${origin === 'store' ? ' (already when the backup was made)' : ''}`)
      const findings = startFindings<Problem>(cli, 'backup verify', columns, formatProblem, 'path')
      const progress = cli.progress('verify')
      const { manifest, problems, fix } = await verifyBackup(source, policy, (done, total) => progress.update({ done, total }))
      progress.done()
      for (const problem of problems) findings.add(problem)
      if (fix !== null) cli.warn(`fix: ${cli.options.formatFix(fix)}`)
      const signature = !manifest?.hmac ? 'none' : policy.key ? 'valid' : 'not checked'
      const about = manifest && {
        signature,
        ...documentCounts(manifest),
        files: manifest.files,
        created_at: manifest.created_at,
        dms: manifest.dms,
      }
      const verdict = manifest
        ? `${describeDocuments(manifest)}, ${manifest.files} files, created ${manifest.created_at} by dms ${manifest.dms}`
        : 'not a complete backup'
      findings.finish({ backup: about }, escapeControls(problems.length > 0 ? `damaged: ${verdict}` : `✓ Intact: ${verdict}`))
    })
