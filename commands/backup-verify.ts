import type { Command } from 'commander'
import { backupNamed } from '../src/cli/backup-source.ts'
import type { Cli } from '../src/cli/context.ts'
import { startFindings } from '../src/cli/findings.ts'
import { manual } from '../src/cli/manual.ts'
import { plain } from '../src/plain.ts'

interface Problem {
  readonly path: string
  readonly problem: string
}

export const backupVerify = (cli: Cli): Command =>
  manual('verify <backup>', {
    summary: 'Read a backup to its end and hold every byte against its checksum.',
    examples: [
      ['backup verify dms-20261120T031500Z.tar', 'one of backup.path'],
      ['age -d -i key dms.tar.age | dms backup verify -', 'from a pipe'],
      ['backup verify /mnt/nas/dms', 'a folder; sha256sum -c data/*/SHA256SUMS does the same without dms'],
    ],
    exits: '0 whole · 3 something is missing or damaged · 6 no such backup',
  }).action(async (given: string) => {
    cli.refuseRemote('backup verify')
    const source = await backupNamed(cli, given)
    const { verify } = await import('../src/backup/verify.ts')
    const columns = [{ name: 'problem' }, { name: 'path' }] as const
    const findings = startFindings<Problem>(cli, 'backup verify', columns, ({ path, problem }) => plain(`${problem}  ${path}`), 'path')
    const progress = cli.progress('verify')
    const { manifest, problems } = await verify(source, (done, total) => progress.update({ done, total }))
    progress.done()
    for (const { sha256, problem } of manifest?.damaged ?? [])
      cli.warn(`warning: stored file ${sha256} was ${problem} already when the backup was made`)
    for (const problem of problems) findings.add(problem)
    const about = manifest && { documents: manifest.documents, files: manifest.files, created_at: manifest.created_at, dms: manifest.dms }
    const verdict = about
      ? `${about.documents} documents, ${about.files} files, made ${about.created_at} by dms ${about.dms}`
      : 'no finished backup'
    findings.finish({ backup: about }, plain(problems.length > 0 ? `damaged: ${verdict}` : `✓ whole: ${verdict}`))
  })
