import { stat } from 'node:fs/promises'
import { maxTimer, parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { createMissingLabels, findLabelIds } from '../../src/cli/arguments/labels.ts'
import { type Batch, startBatch } from '../../src/cli/output/batch-output.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import { lockFolders } from '../../src/cli/runtime/run-lock.ts'
import { assertMovesOut } from '../../src/cli/upload/after-upload.ts'
import { addUploadFlags, parseUploadFlags, type UploadFlags } from '../../src/cli/upload/flags.ts'
import { watchFolder } from '../../src/cli/upload/watch-folder.ts'
import type { Client } from '../../src/client/client.ts'
import { escapeControls } from '../../src/log/escape.ts'

export const watch = (cli: Cli) =>
  addUploadFlags(
    manual('watch <folder>', {
      summary: 'Upload new files of a folder until stopped',
      examples: [
        ['documents watch /srv/scans --after-upload move:/srv/done', 'a scanner’s folder'],
        ['documents watch /mnt/nas --poll 30s --label inbox', 'a network folder without change events'],
        ["documents watch . --include '*.pdf' -o jsonl | jq -r .id", 'ids, as files are uploaded'],
      ],
      exits:
        '0 stopped (SIGINT, SIGTERM) · 2 no such folder, or invalid option · 3 stopped, and some files failed · 4 not signed in · 6 no such label or owner · 75 another run uploads this folder',
      notes: [
        'A file is sent when its size and time have not changed for --settle. A failed file is retried when it changes.',
        'While the server is unreachable, it is retried every 30 s.',
      ],
    }),
  )
    .option('--settle <duration>', 'time without changes before a file is sent', '10s')
    .option('--poll <duration>', 'scan the folder at this interval instead of relying on change events')
    .action(async (folder: string, flags: UploadFlags & { settle: string; poll?: string }) => {
      const settle = parseDurationFlag('--settle', flags.settle)
      const poll = flags.poll === undefined ? null : Math.max(200, parseDurationFlag('--poll', flags.poll, maxTimer))
      const uploading = parseUploadFlags('documents watch', flags)
      const about = await stat(folder).catch((error: Error) => {
        throw usage(`cannot watch ${folder}: ${error.message}`)
      })
      if (!about.isDirectory()) throw usage(`cannot watch ${folder}: not a folder`)
      await assertMovesOut(flags.afterUpload, [folder])
      const signal = cli.serviceSignal
      const client = await cli.client()
      await lockFolders(cli, 'documents watch', [folder], parseDurationFlag('--lock-timeout', flags.lockTimeout))
      const labels = flags.label.join(',')
      await (flags.createLabels ? createMissingLabels(cli, client, labels) : requireLabels(client, labels))
      const batch = startBatch(cli, 'documents watch', { isEndless: true })
      const add: Batch['add'] = (item) => batch.add(item, escapeControls(`${item.action}  ${item.key}`))
      const { include, exclude } = flags
      cli.note(`watching ${folder}`)
      await watchFolder(cli, client, {
        folder,
        // Files that are younger than --min-age wait for it, like those that have not settled.
        settleMs: Math.max(settle, uploading.minAgeMs),
        pollMs: poll,
        retryMs: 30_000,
        signal,
        find: { isRecursive: true, shouldFollowLinks: flags.followSymlinks === true, include, exclude },
        upload: { ...uploading, minAgeMs: 0, cache: null, batch: { ...batch, add } },
      })
      batch.finish()
    })

/** Throws Failure NOT_FOUND if one of the labels does not exist. A server that does not answer yet is asked again with the first file. */
async function requireLabels(client: Client, labels: string): Promise<void> {
  if (labels === '') return
  await findLabelIds(client, labels).catch((error) => {
    if (error instanceof Failure && error.exit === 'NOT_FOUND') throw error
  })
}
